package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	replicasv1 "github.com/delayedop/purgatory/examples/heavy/replicas/replicas/v1"
	"github.com/delayedop/purgatory/examples/heavy/replicas/replicas/v1/replicasv1connect"
)

// clients returns a client of each replica, and the transport with their connections.
func clients(replicas []string) (all []replicasv1connect.StateClient, transport *http.Transport) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport = &http.Transport{Protocols: protocols, HTTP2: &http.HTTP2Config{SendPingTimeout: time.Second, PingTimeout: 10 * time.Second}}
	for _, url := range replicas {
		all = append(all, replicasv1connect.NewStateClient(&http.Client{Transport: transport}, url))
	}
	return all, transport
}

func demoKey(i int) string { return fmt.Sprint("key/", i) }

// runWriter puts to random keys, and prints the key's number and the revision of each put
// that was acknowledged. The value is the time at which the put was sent, in nanoseconds.
func runWriter(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("writer", flag.ContinueOnError)
	replicas := flags.String("replicas", "http://127.0.0.1:8080", "addresses of the replicas, with commas between them")
	keys := flags.Int("keys", 1000, "number of keys")
	every := flags.Duration("every", 2*time.Millisecond, "pause between two puts")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	all, _ := clients(strings.Split(*replicas, ","))
	for n := 0; ctx.Err() == nil; n++ {
		key := rand.N(*keys)
		within, cancel := context.WithTimeout(ctx, 2*time.Second)
		began := time.Now()
		answer, err := all[n%len(all)].Put(within, connect.NewRequest(&replicasv1.PutRequest{Key: demoKey(key), Value: strconv.AppendInt(nil, began.UnixNano(), 10)}))
		cancel()
		if err == nil {
			fmt.Fprintln(out, key, answer.Msg.Revision)
			if err := out.Flush(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(*every):
		}
	}
	return nil
}
