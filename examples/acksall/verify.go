package main

import "fmt"

// verify compares what producers were told with what the brokers hold, after all has come to rest: every produce answered
// exactly once, no timeout before its time, and every acknowledged record on every in-sync replica. It returns what is broken, nothing when all is well.
func verify(l *ledger, c *cluster) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var broken []string
	if n := len(l.mu.open); n > 0 {
		broken = append(broken, fmt.Sprintf("%d produces were never answered", n))
	}
	if n := len(l.mu.twice); n > 0 {
		broken = append(broken, fmt.Sprintf("%d produces were answered more than once, the first of them produce %d", n, l.mu.twice[0]))
	}
	if late := c.lateness().sorted(); len(late) > 0 && late[0] < 0 {
		broken = append(broken, fmt.Sprintf("a timeout was answered %v before its time", -late[0]))
	}
	return append(broken, missing(l.mu.acknowledged, c)...)
}

// missing lists, for each broker that lacks acknowledged records although it is in sync, how many and the first of them.
func missing(records []acknowledged, c *cluster) []string {
	lost := make([]int, len(c.brokers))
	first := make([]acknowledged, len(c.brokers))
	for _, a := range records {
		for _, id := range c.controller.assigned(a.Partition).insync {
			found, ok := c.brokers[id].replicas[a.Partition].recordAt(a.offset)
			if ok && found.Value == a.Value {
				continue
			}
			if lost[id] == 0 {
				first[id] = a
			}
			lost[id]++
		}
	}
	var broken []string
	for id, n := range lost {
		if n > 0 {
			broken = append(broken, fmt.Sprintf("broker %d is in sync but lacks %d acknowledged records, the first of them %q at %v offset %d",
				id, n, first[id].Value, first[id].Partition, first[id].offset))
		}
	}
	return broken
}
