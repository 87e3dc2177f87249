/* Any plug-in as a program of its own, for `driver = "process"`:
 *
 *   cc -O2 -pthread -I sdk -o records sdk/examples/c/serve.c sdk/examples/c/records.c
 *   taillight drivers --check ./records */
#include "taillight_process.h"

int main(void) { return taillight_serve(taillight_driver_v1(TAILLIGHT_ABI)); }
