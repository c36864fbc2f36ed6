/* Runs the program clickhouse-local out of a library: launcher LIBRARY [ARGUMENT...]
 *
 * The package on npm has ClickHouse as a library only. Its function chdb_query_cmdline is the whole program with its
 * arguments, which can listen for HTTP.
 */
#include <dlfcn.h>
#include <stdio.h>

struct result;

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s LIBRARY [ARGUMENT...]\n", argv[0]);
        return 2;
    }
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    struct result *(*run)(int, char **) = (struct result * (*)(int, char **)) dlsym(library, "chdb_query_cmdline");
    const char *(*error_of)(struct result *) = (const char *(*)(struct result *))dlsym(library, "chdb_result_error");
    if (!run || !error_of) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    argv[1] = "clickhouse";
    struct result *result = run(argc - 1, argv + 1);
    const char *error = result ? error_of(result) : "no result";
    if (error && *error) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    return 0;
}
