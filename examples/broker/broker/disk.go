package broker

import (
	"maps"
	"sync"

	"github.com/delayedop/purgatory/examples/broker/commitlog"
)

// Disk holds the logs of one broker and outlives it: a broker that is started
// with the disk of its former life has what it had. The zero value is empty.
type Disk struct {
	mu struct {
		sync.Mutex
		logs map[topicPartition]*commitlog.Log
	}
}

func (d *Disk) log(tp topicPartition) *commitlog.Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.logs == nil {
		d.mu.logs = make(map[topicPartition]*commitlog.Log)
	}
	if d.mu.logs[tp] == nil {
		d.mu.logs[tp] = &commitlog.Log{}
	}
	return d.mu.logs[tp]
}

// forget drops the logs of partitions that are gone.
func (d *Disk) forget(gone func(topicPartition) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.mu.logs, func(tp topicPartition, _ *commitlog.Log) bool { return gone(tp) })
}
