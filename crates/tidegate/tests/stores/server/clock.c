/* A wall clock that lies CLOCK_AHEAD_S seconds ahead, or behind, for a process that loads this first; or as many as the
   eight bytes of the file CLOCK_AHEAD_FILE say at the moment. Clocks that only count what has passed are left alone. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long *stepped;

__attribute__((constructor)) static void open_stepped(void) {
    const char *name = getenv("CLOCK_AHEAD_FILE");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *at = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
        stepped = at == MAP_FAILED ? NULL : at;
        close(file);
    }
}

static long ahead_s(void) {
    const char *text = getenv("CLOCK_AHEAD_S");
    return stepped ? *stepped : text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, clock, at);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        at->tv_sec += ahead_s();
    }
    return failed;
}

int gettimeofday(struct timeval *at, void *zone) {
    (void)zone;
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) {
        *at = now.tv_sec;
    }
    return now.tv_sec;
}
