/* Processes that multiprocessing spawns under `pyrometer run`. */
#ifndef PYR_NATIVE_SPAWN_HOOK_H
#define PYR_NATIVE_SPAWN_HOOK_H

/* Has the bootstrap folder put in front of PYTHONPATH in the environment of every process that
 * multiprocessing spawns from now on (its workers and its fork server), and of no other; that
 * process also learns whose child it is. `folder` is copied. Once a process; where the interpreter
 * does not look as expected, nothing happens. With the GIL. */
void pyr_spawn_hook_install(const char *folder);

/* The variable by which it learns that: a runtime id. */
#define PYR_PARENT_VARIABLE "_PYROMETER_PARENT"

#endif
