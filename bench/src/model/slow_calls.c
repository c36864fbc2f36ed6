/* Delays calls of the system in the program that preloads it, by as many microseconds as the environment says. The caller sleeps
 * after the call, so delays of several threads run at the same time, and cost next to no CPU. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static long sync_micros, read_micros;
static int (*real_fsync)(int), (*real_fdatasync)(int);
static ssize_t (*real_pread64)(int, void *, size_t, off64_t);

static long micros(const char *name)
{
	const char *value = getenv(name);
	return value ? atol(value) : 0;
}

__attribute__((constructor)) static void find_calls(void)
{
	real_fsync = dlsym(RTLD_NEXT, "fsync");
	real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
	real_pread64 = dlsym(RTLD_NEXT, "pread64");
	sync_micros = micros("SLOW_SYNC_MICROS");
	read_micros = micros("SLOW_READ_MICROS");
}

static void delay(long micros)
{
	int error = errno;
	struct timespec left = {micros / 1000000, micros % 1000000 * 1000};
	while (micros > 0 && nanosleep(&left, &left) != 0) {
	}
	errno = error;
}

int fsync(int file)
{
	int result = real_fsync(file);
	delay(sync_micros);
	return result;
}

int fdatasync(int file)
{
	int result = real_fdatasync(file);
	delay(sync_micros);
	return result;
}

ssize_t pread64(int file, void *buffer, size_t count, off64_t offset)
{
	ssize_t result = real_pread64(file, buffer, count, offset);
	delay(read_micros);
	return result;
}
