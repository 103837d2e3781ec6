package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"
)

// runPut puts to each key that it reads from its standard input, one a line, and prints a
// line for each: when it began and when the put was acknowledged (Unix time in
// nanoseconds), and the revision. It writes to the engine itself, not by way of a replica.
//
// With -halt it prints the revision between the commit and the hint, and goes no further:
// it waits there until it is killed.
func runPut(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("put", flag.ContinueOnError)
	engine := flags.String("engine", engineNATS, "where the state is: nats, subjects or postgres")
	url := flags.String("url", "nats://127.0.0.1:4222", "address of the engine")
	halt := flags.Bool("halt", false, "stop between the commit and the hint (engine subjects)")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	s, err := openStore(ctx, *engine, *url, func(revision int64) {
		if *halt {
			fmt.Println(revision)
			<-ctx.Done()
			os.Exit(1) // without a hint
		}
	})
	if err != nil {
		return err
	}
	defer s.Close()
	for keys := bufio.NewScanner(os.Stdin); keys.Scan() && ctx.Err() == nil; {
		began := time.Now()
		revision, err := s.Put(ctx, keys.Text(), strconv.AppendInt(nil, began.UnixNano(), 10))
		if err != nil {
			return err
		}
		fmt.Println(began.UnixNano(), time.Now().UnixNano(), revision)
	}
	return nil
}
