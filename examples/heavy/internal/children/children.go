// Package children is what the programs that start processes have in common.
package children

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// The ports lie below those that systems choose for outgoing connections: a process that
// is down for a while must find its port free afterwards.
const firstPort, lastPort = 12_000, 32_000

// FreeAddr returns an address of this host on which nobody listens.
func FreeAddr() (addr string, err error) {
	for range 1000 {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", firstPort+rand.N(lastPort-firstPort))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", err
}
