/* A libcufile.so.0 that stands before the real one and counts: how many reads of batches are under way at once, and how many
 * were submitted before anybody waited for the first of them.
 *
 *     cc -O1 -shared -fPIC cufile_watch.c -o FOLDER/libcufile.so.0 -ldl
 *     TIFFJET_CUDA_LIBS=FOLDER WATCHED=/usr/local/cuda/lib64/libcufile.so.0 ...
 *
 * A round lasts from the first submitted read to the last that is done; calls of threads are counted apart. One line of JSON
 * on stderr when the process ends.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>

typedef struct {
    int code, driver;
} Status;
typedef struct {
    void *cookie;
    int status;
    ssize_t read;
} Event;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long under_way, most, rounds, reads, batches, waits, calls, calling, most_calls, failed;
static long before_wait, least_before_wait = -1, most_before_wait, after_wait;
static int waited;

static void *real(const char *name) {
    static void *library;
    pthread_mutex_lock(&lock);
    if (!library) {
        const char *path = getenv("WATCHED");
        library = dlopen(path ? path : "libcufile.so.0", RTLD_NOW | RTLD_LOCAL);
        if (!library) fprintf(stderr, "%s\n", dlerror());
    }
    pthread_mutex_unlock(&lock);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "no %s\n", name);
        abort();
    }
    return found;
}
#define REAL(name, type) ((type)real(#name))

Status cuFileDriverOpen(void) { return REAL(cuFileDriverOpen, Status(*)(void))(); }
Status cuFileGetVersion(int *version) { return REAL(cuFileGetVersion, Status(*)(int *))(version); }
Status cuFileHandleRegister(void **file, void *descriptor) {
    return REAL(cuFileHandleRegister, Status(*)(void **, void *))(file, descriptor);
}
void cuFileHandleDeregister(void *file) { REAL(cuFileHandleDeregister, void (*)(void *))(file); }
Status cuFileBufRegister(const void *at, size_t length, int flags) {
    return REAL(cuFileBufRegister, Status(*)(const void *, size_t, int))(at, length, flags);
}
Status cuFileBufDeregister(const void *at) { return REAL(cuFileBufDeregister, Status(*)(const void *))(at); }
Status cuFileSetParameterSizeT(int parameter, size_t value) {
    return REAL(cuFileSetParameterSizeT, Status(*)(int, size_t))(parameter, value);
}
Status cuFileGetParameterSizeT(int parameter, size_t *value) {
    return REAL(cuFileGetParameterSizeT, Status(*)(int, size_t *))(parameter, value);
}
Status cuFileDriverGetProperties(void *out) { return REAL(cuFileDriverGetProperties, Status(*)(void *))(out); }

ssize_t cuFileRead(void *file, void *to, size_t length, off_t start, off_t at) {
    static ssize_t (*next)(void *, void *, size_t, off_t, off_t);
    if (!next) next = REAL(cuFileRead, ssize_t(*)(void *, void *, size_t, off_t, off_t));
    pthread_mutex_lock(&lock);
    calls++;
    if (++calling > most_calls) most_calls = calling;
    pthread_mutex_unlock(&lock);
    ssize_t got = next(file, to, length, start, at);
    pthread_mutex_lock(&lock);
    calling--;
    pthread_mutex_unlock(&lock);
    return got;
}

Status cuFileBatchIOSetUp(void **batch, unsigned count) {
    return REAL(cuFileBatchIOSetUp, Status(*)(void **, unsigned))(batch, count);
}

Status cuFileBatchIOSubmit(void *batch, unsigned count, void *entries, unsigned flags) {
    Status status = REAL(cuFileBatchIOSubmit, Status(*)(void *, unsigned, void *, unsigned))(batch, count, entries, flags);
    if (status.code) return status;
    pthread_mutex_lock(&lock);
    if (under_way == 0) before_wait = waited = 0, rounds++;
    batches++, reads += count, under_way += count;
    if (waited) after_wait += count;
    else before_wait += count;
    if (under_way > most) most = under_way;
    pthread_mutex_unlock(&lock);
    return status;
}

Status cuFileBatchIOGetStatus(void *batch, unsigned least, unsigned *count, Event *events, struct timespec *limit) {
    pthread_mutex_lock(&lock);
    waits++;
    if (!waited) {
        waited = 1;
        if (before_wait > most_before_wait) most_before_wait = before_wait;
        if (least_before_wait < 0 || before_wait < least_before_wait) least_before_wait = before_wait;
    }
    pthread_mutex_unlock(&lock);
    Status status =
        REAL(cuFileBatchIOGetStatus, Status(*)(void *, unsigned, unsigned *, Event *, struct timespec *))(batch, least, count, events, limit);
    if (status.code) return status;
    pthread_mutex_lock(&lock);
    under_way -= *count;
    for (unsigned i = 0; i < *count; i++) failed += events[i].status != 16;
    pthread_mutex_unlock(&lock);
    return status;
}

Status cuFileBatchIOCancel(void *batch) { return REAL(cuFileBatchIOCancel, Status(*)(void *))(batch); }
void cuFileBatchIODestroy(void *batch) { REAL(cuFileBatchIODestroy, void (*)(void *))(batch); }

__attribute__((destructor)) static void tell(void) {
    fprintf(stderr,
            "{\"rounds\": %ld, \"batches\": %ld, \"reads\": %ld, \"failed\": %ld, \"most_under_way\": %ld, "
            "\"before_the_first_wait\": [%ld, %ld], \"after_it\": %ld, \"waits\": %ld, \"calls\": %ld, \"most_calls_at_once\": %ld}\n",
            rounds, batches, reads, failed, most, least_before_wait, most_before_wait, after_wait, waits, calls, most_calls);
}
