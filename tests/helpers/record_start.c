/* record_start.c: the trainee of tests/bench/daemon. It writes the monotonic clock, in nanoseconds,
 * to the file named by its argument, and ends. So the benchmark learns when the job really
 * began. */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct timespec now;
    char text[32];
    int length, descriptor;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (argc != 2)
        return 2;
    length = snprintf(text, sizeof text, "%lld", now.tv_sec * 1000000000LL + now.tv_nsec);
    descriptor = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor < 0 || write(descriptor, text, (size_t)length) != length)
        return 1;
    return 0;
}
