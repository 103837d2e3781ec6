package main

import (
	"context"
	"time"
)

// followTimeline makes happen what the flags say, when they say it, and writes a line of numbers each second, until ctx ends.
func followTimeline(ctx context.Context, cfg config, c *cluster, l *ledger) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	var slow, well, leaderChange <-chan time.Time // a nil channel never delivers
	if cfg.slow.happens() && cfg.replicas > 1 {
		slow, well = time.After(time.Until(c.started.Add(cfg.slow.from))), time.After(time.Until(c.started.Add(cfg.slow.to)))
	}
	if cfg.leaderChangeAt > 0 {
		leaderChange = time.After(time.Until(c.started.Add(cfg.leaderChangeAt)))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-second.C:
			c.events.progress(l.tally(), c.waiting())
		case <-slow:
			c.events.eventf("broker %d is slow: each of its fetches is held back for %v", cfg.slow.broker, cfg.slow.by)
		case <-well:
			c.events.eventf("broker %d is well again", cfg.slow.broker)
		case <-leaderChange:
			c.stepDown(0)
		}
	}
}
