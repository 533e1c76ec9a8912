/* pyrometer store: looks after the folder that `serve` keeps profiles in.
 *
 * check, compact and delete write, so they need the store for themselves: no server may run on it.
 * export only reads. One thread, beside the store's own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/serving.h"
#include "pprof/write.h"
#include "query/gather.h"
#include "server/request.h"
#include "store/store.h"
#include "store/view.h"

enum { WHY_BYTES = 1024 };

typedef struct arguments {
    const char *data, *from, *until, *output;
    pyr_option_list where;
} arguments;

static int read_time(const char *option, const char *text, int64_t *time_ns)
{
    if (text != NULL && pyr_time_parse(text, pyr_clock_realtime_ns(), time_ns) != PYR_OK) {
        return pyr_message_wrong("--%s cannot be \"%s\"; give it now-7d, seconds since 1970, or "
                                 "2026-11-30T00:00:00Z",
                                 option, text);
    }
    return PYR_EXIT_GOOD;
}

static int read_question(const arguments *a, pyr_question *question)
{
    char why[PYR_QUESTION_WHY_BYTES];
    pyr_question_init(question);
    int code = read_time("from", a->from, &question->from_ns);
    if (code == PYR_EXIT_GOOD) {
        code = read_time("until", a->until, &question->until_ns);
    }
    for (size_t at = 0; at < a->where.count && code == PYR_EXIT_GOOD; at++) {
        if (pyr_question_where(question, a->where.items[at], why, sizeof why) != PYR_OK) {
            code = pyr_message_wrong("%s", why);
        }
    }
    return code;
}

static int open_store(const char *folder, pyr_store **store)
{
    char why[WHY_BYTES];
    const pyr_store_options options = {.folder = folder};
    if (pyr_store_open(&options, store, why, sizeof why) != PYR_OK) {
        return pyr_message_wrong("%s", why);
    }
    return PYR_EXIT_GOOD;
}

static int check(const char *folder)
{
    char why[WHY_BYTES];
    int64_t profiles = 0;
    pyr_store *store = NULL;
    int code = open_store(folder, &store);
    if (code == PYR_EXIT_GOOD && pyr_store_check(store, &profiles, why, sizeof why) != PYR_OK) {
        pyr_message_wrong("%s", why);
        code = PYR_EXIT_FINDING;
    }
    if (code == PYR_EXIT_GOOD) {
        printf("%" PRId64 " profiles, all good\n", profiles);
    }
    pyr_store_close(store);
    return code;
}

static int compact(const char *folder)
{
    pyr_store *store = NULL;
    int code = open_store(folder, &store);
    if (code == PYR_EXIT_GOOD) {
        pyr_status status = pyr_store_upkeep(store, true);
        code = status == PYR_OK ? PYR_EXIT_GOOD
                                : pyr_message_wrong("the store could not be compacted: %s",
                                                    pyr_status_text(status));
    }
    pyr_store_close(store);
    return code;
}

static int open_view(const char *folder, pyr_view **view)
{
    char why[WHY_BYTES];
    if (pyr_view_open(folder, view, why, sizeof why) != PYR_OK) {
        return pyr_message_wrong("%s", why);
    }
    return pyr_view_begin(*view) == PYR_OK ? PYR_EXIT_GOOD
                                           : pyr_message_wrong("the store is busy; try again");
}

static int write_profile(const pyr_gathered *gathered, const char *path)
{
    pyr_buffer bytes;
    pyr_output output;
    pyr_buffer_init(&bytes, SIZE_MAX / 2);
    int code = pyr_profile_write(gathered->profile, PYR_PPROF_GZIP, &bytes) == PYR_OK
                   ? pyr_output_open(&output, path)
                   : pyr_message_no_memory();
    if (code == PYR_EXIT_GOOD) {
        fwrite(bytes.data, 1, bytes.length, output.file);
        code = pyr_output_close(&output, code);
    }
    pyr_buffer_fini(&bytes);
    return code;
}

static int export(const char *folder, const arguments *a)
{
    pyr_question question;
    pyr_gathered gathered = {0};
    pyr_view *view = NULL;
    int code = read_question(a, &question);
    if (code == PYR_EXIT_GOOD) {
        code = open_view(folder, &view);
    }
    if (code == PYR_EXIT_GOOD) {
        pyr_status status = pyr_gather(view, &question, PYR_GATHER_LABELS, &gathered);
        code = status == PYR_OK ? write_profile(&gathered, a->output)
                                : pyr_message_wrong("nothing was exported: %s",
                                                    status == PYR_ENOENT ? "no profile passes"
                                                                         : pyr_status_text(status));
    }
    pyr_gathered_fini(&gathered);
    pyr_view_close(view);
    pyr_question_fini(&question);
    return code;
}

static int delete (const char *folder, const arguments *a)
{
    pyr_question question;
    pyr_buffer ids;
    pyr_buffer open;
    int64_t removed = 0;
    pyr_store *store = NULL;
    pyr_view *view = NULL;
    if (a->where.count == 0 && a->from == NULL && a->until == NULL) {
        return pyr_message_wrong("say what to delete: --where service=NAME, --from, --until");
    }
    pyr_buffer_init(&ids, SIZE_MAX / 2);
    pyr_buffer_init(&open, SIZE_MAX / 2);
    int code = read_question(a, &question);
    if (code == PYR_EXIT_GOOD) {
        code = open_store(folder, &store);
    }
    if (code == PYR_EXIT_GOOD) {
        code = open_view(folder, &view);
    }
    if (code == PYR_EXIT_GOOD && pyr_question_series(view, &question, &ids, &open) != PYR_OK) {
        code = pyr_message_no_memory();
    }
    for (size_t at = 0; at < open.length && code == PYR_EXIT_GOOD; at++) {
        if (open.data[at] != 0) {
            code = pyr_message_wrong("profiles are deleted whole: --where may only name what all "
                                     "of them have, such as service, env or version");
        }
    }
    pyr_view_close(view);
    if (code == PYR_EXIT_GOOD) {
        pyr_status status = pyr_store_delete(store, (const int64_t *)(const void *)ids.data,
                                             ids.length / sizeof(int64_t), question.from_ns,
                                             question.until_ns, &removed);
        code = status == PYR_OK
                   ? PYR_EXIT_GOOD
                   : pyr_message_wrong("nothing was deleted: %s", pyr_status_text(status));
    }
    if (code == PYR_EXIT_GOOD) {
        printf("%" PRId64 " profiles deleted\n", removed);
    }
    pyr_store_close(store);
    pyr_buffer_fini(&ids);
    pyr_buffer_fini(&open);
    pyr_question_fini(&question);
    return code;
}

int pyr_command_store(int argc, char **argv)
{
    arguments a = {0};
    char folder[PYR_SERVING_PATH_BYTES];
    const pyr_option options[] = {
        {PYR_OPTION_HEADING, 0, NULL, NULL, "Which store", NULL},
        {PYR_OPTION_TEXT, 'd', "data", "DIR", "its folder (default: ~/.local/share/pyrometer)",
         &a.data},
        {PYR_OPTION_HEADING, 0, NULL, NULL, "Which profiles (export, delete)", NULL},
        {PYR_OPTION_TEXTS, 0, "where", "CONDITION", "such as service=shop or version!=1.2",
         &a.where},
        {PYR_OPTION_TEXT, 0, "from", "TIME", "those that start then or later: now-7d", &a.from},
        {PYR_OPTION_TEXT, 0, "until", "TIME", "those that start before", &a.until},
        {PYR_OPTION_TEXT, 'o', "output", "FILE",
         "file that export writes (default: - = standard "
         "output)",
         &a.output},
    };
    const pyr_usage usage = {
        .command = "store",
        .operands = "check|compact|export|delete",
        .about = "check reads every value; compact makes the file small; export writes the sum of "
                 "profiles as\npprof; delete removes profiles. All but export need the store for "
                 "themselves.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .least_operands = 1,
        .most_operands = 1,
    };
    size_t count = 0;
    pyr_parse_result result = pyr_options_parse(&usage, argc, argv, &count);
    if (result != PYR_PARSE_GOOD) {
        return result == PYR_PARSE_HELP ? PYR_EXIT_GOOD : PYR_EXIT_WRONG;
    }
    int code = pyr_serving_folder(a.data, folder);
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    if (strcmp(argv[0], "check") == 0) {
        return check(folder);
    }
    if (strcmp(argv[0], "compact") == 0) {
        return compact(folder);
    }
    if (strcmp(argv[0], "export") == 0) {
        return export(folder, &a);
    }
    if (strcmp(argv[0], "delete") == 0) {
        return delete (folder, &a);
    }
    return pyr_message_wrong("store cannot \"%s\": it can check, compact, export and delete",
                             argv[0]);
}
