/* Files that commands write.
 *
 * Owns the FILE between open and close. One thread. Half a file is worse than none: it opens in a
 * viewer and misleads.
 */
#include "cli/output.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/message.h"

int pyr_output_open(pyr_output *output, const char *path)
{
    *output = (pyr_output){.file = stdout};
    if (path != NULL && strcmp(path, "-") != 0) {
        output->path = path;
        output->file = fopen(path, "we");
        if (output->file == NULL) {
            return pyr_message_wrong("cannot write %s: %m; choose another place with -o", path);
        }
    }
    return PYR_EXIT_GOOD;
}

int pyr_output_close(pyr_output *output, int code)
{
    if (output->file == NULL) {
        return code;
    }
    bool failed = ferror(output->file) != 0; /* before: what it was is not known any more */
    errno = 0;
    bool good = fflush(output->file) == 0 && !failed;
    int error = errno != 0 ? errno : EIO;
    struct stat about;
    bool regular =
        output->path != NULL && fstat(fileno(output->file), &about) == 0 && S_ISREG(about.st_mode);
    if (output->path != NULL && fclose(output->file) != 0) {
        error = good ? errno : error;
        good = false;
    }
    output->file = NULL;
    if ((!good || code != PYR_EXIT_GOOD) && regular) {
        unlink(output->path);
    }
    if (!good && output->path != NULL) {
        errno = error;
        return pyr_message_wrong("%s could not be written whole: %m; free some space or choose "
                                 "another place with -o",
                                 output->path);
    }
    return code; /* standard output is checked at the end of main */
}
