// A driver that does nothing, in Go: Go is entered once for each batch of operations.
//
//	cd sdk/examples/go && go build -buildmode=c-shared -o null-go.so . && taillight drivers --check ./null-go.so
//
// Memory of keys and values is the host's: Go code looks at it with unsafe.Slice and keeps no pointer into it.
package main

// #cgo CFLAGS: -I${SRCDIR}/../..
// #include "taillight_driver.h"
import "C"

import "unsafe"

//export nullSubmit
func nullSubmit(_ unsafe.Pointer, ops *C.tl_op, n C.uint32_t, done *C.tl_done, ended *C.uint32_t) C.int32_t {
	given := unsafe.Slice(ops, int(n))
	ends := unsafe.Slice(done, int(n))
	for i := range given {
		ends[i] = C.tl_done{token: given[i].token, moved: given[i].size}
	}
	*ended = n
	return C.int32_t(n)
}

func main() {}
