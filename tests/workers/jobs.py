"""Jobs of celery and RQ: the handlers of application.py."""

import os

import application

try:
    from celery import Celery
except ImportError:  # RQ alone needs no celery
    pass
else:
    folder = os.environ.get("BROKER", "/nonexistent")
    app = Celery("jobs", broker="filesystem://")
    app.conf.broker_transport_options = {
        "data_folder_in": folder,
        "data_folder_out": folder,
        "control_folder": os.path.join(folder, "control"),
    }
    app.conf.task_ignore_result = True
    app.conf.worker_hijack_root_logger = False

    @app.task
    def work(path):
        application.handle(path)


def job(path):
    application.handle(path)


def long_job():
    for _ in range(12):
        application.handle("/busy")
        application.handle("/other")
