"""The name of a serverless function is a tag of each upload."""

from agent import run


def test_the_function_is_a_tag(tmp_path, stub):
    done = run(
        tmp_path,
        "assert window()\n",
        PYROMETER_URL=stub.url,
        AWS_LAMBDA_FUNCTION_NAME="resize",
    )
    assert done.code == 0
    tags = stub.uploads[0].event()["tags_profiler"].split(",")
    assert "functionname:resize" in tags


def test_elsewhere_there_is_none(tmp_path, stub):
    assert run(tmp_path, "assert window()\n", PYROMETER_URL=stub.url).code == 0
    assert "functionname" not in stub.uploads[0].event()["tags_profiler"]
