package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// disconnect has a client leave while its GET waits: the wait must leave the purgatory with it.
func (d *demo) disconnect(out io.Writer) error {
	waiting := d.server.waiting.NumDelayed
	settled := waiting()
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	left := make(chan error, 1)
	go func() {
		_, err := d.client.poll(ctx, "quiet", -1, pollTimeout)
		left <- err
	}()
	bounded, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	if err := until(bounded, func() error { return waitingIs(waiting, settled+1) }); err != nil {
		return fmt.Errorf("a GET on a quiet topic does not wait: %w", err)
	}
	leave()
	if err := <-left; err == nil {
		return errors.New("a client has disconnected, and got an answer")
	}
	if err := until(bounded, func() error { return waitingIs(waiting, settled) }); err != nil {
		return fmt.Errorf("a client has disconnected, its GET still waits: %w", err)
	}
	fmt.Fprintln(out, "a client disconnected: its GET left the purgatory at once")
	return nil
}

func waitingIs(waiting func() int, want int) error {
	if got := waiting(); got != want {
		return fmt.Errorf("%d GETs wait, expected were %d", got, want)
	}
	return nil
}

// comeLate has a client ask for the first message of a topic: where it is gone, the answer says where to go on.
func (d *demo) comeLate(out io.Writer) error {
	r, err := d.client.poll(context.Background(), topicName(0), -1, 0)
	if err != nil {
		return err
	}
	published, kept := d.published[0].Load(), int64(d.server.limits.messages)
	if published <= kept {
		if r.status != http.StatusOK {
			return fmt.Errorf("a late client: status %d, nothing is gone yet: %s", r.status, r.body.Error)
		}
		fmt.Fprintf(out, "a late client: 200, nothing is gone yet, %d messages\n", len(r.body.Messages))
		return nil
	}
	if r.status != http.StatusGone || r.body.Oldest != published-kept {
		return fmt.Errorf("a late client: status %d, oldest %d, expected were 410 and %d", r.status, r.body.Oldest, published-kept)
	}
	again, err := d.client.poll(context.Background(), topicName(0), r.body.Oldest-1, 0)
	if err != nil {
		return err
	}
	if again.status != http.StatusOK || len(again.body.Messages) == 0 || again.body.Messages[0].Offset != r.body.Oldest {
		return fmt.Errorf("a late client that goes on at offset %d: status %d, %d messages", r.body.Oldest, again.status, len(again.body.Messages))
	}
	fmt.Fprintf(out, "a late client: 410, offsets below %d are gone; it went on there\n", r.body.Oldest)
	return nil
}
