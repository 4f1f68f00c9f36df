// Runs the program of a library as Python runs its modules: nobody else sees the names in it, nor those of its MPI.
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "WRONG: %s\n", dlerror());
        return 3;
    }
    int (*its_main)(int, char **) = (int (*)(int, char **))dlsym(library, "its_main");
    return its_main(argc - 1, argv + 1);
}
