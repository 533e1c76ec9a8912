/* The subcommands. Each gets what follows its name on the command line (words may be reordered in
 * place) and returns the exit code of the program. */
#ifndef PYR_CLI_COMMANDS_H
#define PYR_CLI_COMMANDS_H

int pyr_command_run(int argc, char **argv);
int pyr_command_report(int argc, char **argv);
int pyr_command_list(int argc, char **argv);
int pyr_command_flamegraph(int argc, char **argv);
int pyr_command_leaks(int argc, char **argv);
int pyr_command_locks(int argc, char **argv);
int pyr_command_exceptions(int argc, char **argv);
int pyr_command_convert(int argc, char **argv);
int pyr_command_diff(int argc, char **argv);
int pyr_command_ctl(int argc, char **argv);
int pyr_command_config(int argc, char **argv);
int pyr_command_doctor(int argc, char **argv);
int pyr_command_recover(int argc, char **argv);
int pyr_command_serve(int argc, char **argv);
int pyr_command_upload(int argc, char **argv);
int pyr_command_store(int argc, char **argv);

#endif
