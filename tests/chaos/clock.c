/* A clock that can be set while a process runs: each reading of the real time is shifted by what a mapped file says.
   The monotonic clock is left alone, as it is when a real clock is set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *seconds;

__attribute__((constructor)) static void map_shift(void) {
    const char *path = getenv("CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) seconds = found;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && seconds && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *seconds;
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec found;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &found)) return -1;
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now) *now = found.tv_sec;
    return found.tv_sec;
}

/* A wait until a time of that clock ends by the kernel's, which is not shifted. */
int sem_timedwait(sem_t *semaphore, const struct timespec *until) {
    static int (*wait_until)(sem_t *, const struct timespec *);
    struct timespec real = *until;
    if (!wait_until) wait_until = (int (*)(sem_t *, const struct timespec *))dlsym(RTLD_NEXT, "sem_timedwait");
    if (seconds) real.tv_sec -= *seconds;
    return wait_until(semaphore, &real);
}
