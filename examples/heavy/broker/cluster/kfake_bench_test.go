//go:build unix

package cluster

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog/batchtest"
)

// server is one of the two that are compared.
type server struct {
	name  string
	addr  string
	raw   *raw
	conns []net.Conn // of the fetches that wait
	took  []turn
}

// turn is what one produce of a turn took.
type turn struct{ cpu, wall time.Duration }

// BenchmarkBesideKfake compares what a produce costs here and in kfake: alone, beside
// 300 fetches that wait for more than comes, and after these have hung up. Each has one
// broker, one partition and one replica, and gets the same bytes, one produce after the
// other with acks=all, from a client that does nothing but write and read. They take
// turns, and each figure is the median over the turns. The CPU time is the process's:
// it has the client in it, which is the same for both.
//
//	go test ./cluster -run xxx -bench BesideKfake -benchtime 1x
func BenchmarkBesideKfake(b *testing.B) {
	const (
		fetches = 300
		turns   = 15
		most    = 500         // produces of a turn
		longest = time.Second // that a turn goes on
	)
	config := testConfig()
	config.Brokers, config.Broker.MinInsyncReplicas = 1, 1
	config.Broker.MaxFetchBytes, config.Broker.MaxWait = 1<<30, time.Hour
	own, err := Start(config)
	require.NoError(b, err)
	defer own.Close()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(b, err)
	defer fake.Close()
	servers := []*server{{name: "here", addr: own.Addrs()[0]}, {name: "kfake", addr: fake.ListenAddrs()[0]}}
	for _, s := range servers {
		s.prepare(b)
	}
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\tserver\tCPU a produce\ttime a produce\t\n")
	for range b.N {
		for _, phase := range []struct {
			name   string
			before func(*server)
		}{
			{"alone", func(*server) {}},
			{fmt.Sprintf("beside %d waiting fetches", fetches), func(s *server) { s.wait(b, fetches) }},
			{"after they have hung up", func(s *server) { s.hangUp() }},
		} {
			for _, s := range servers {
				s.took = nil
				phase.before(s)
			}
			time.Sleep(time.Second) // until the fetches wait, or their end is seen
			for range turns {
				for _, s := range servers {
					s.took = append(s.took, s.produce(most, longest))
				}
			}
			for _, s := range servers {
				s.stillWait(b)
				cpu, wall := s.median()
				fmt.Fprintf(w, "%s\t%s\t%v\t%v\t\n", phase.name, s.name, cpu, wall)
			}
		}
	}
	require.NoError(b, w.Flush())
	b.Logf("\n%s", table.String())
	b.ReportMetric(0, "ns/op")
}

// prepare connects and creates the topic.
func (s *server) prepare(b *testing.B) {
	conn, err := net.Dial("tcp", s.addr)
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	s.raw = newRaw(b, conn)
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.addr))
	require.NoError(b, err)
	defer cl.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "t", 1, 1
	req.Topics, req.TimeoutMillis = append(req.Topics, rt), 10_000
	resp, err := req.RequestWith(b.Context(), cl)
	require.NoError(b, err)
	require.Zero(b, resp.Topics[0].ErrorCode)
	s.produce(500, time.Minute)
}

// wait has fetches wait at the end of the log, for 64 MiB.
func (s *server) wait(b *testing.B, n int) {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 11, math.MaxInt32, 64<<20, 1<<30, -1
	part := kmsg.NewFetchRequestTopicPartition()
	part.PartitionMaxBytes, part.LogStartOffset = 1<<30, -1
	req.Topics = []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{part}}}
	for range n {
		conn, err := net.Dial("tcp", s.addr)
		require.NoError(b, err)
		_, err = conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 1))
		require.NoError(b, err)
		s.conns = append(s.conns, conn)
	}
}

// stillWait requires that no fetch has been answered.
func (s *server) stillWait(b *testing.B) {
	for _, conn := range s.conns {
		require.NoError(b, conn.SetReadDeadline(time.Now().Add(time.Millisecond)))
		_, err := conn.Read(make([]byte, 1))
		require.ErrorIs(b, err, os.ErrDeadlineExceeded, s.name)
	}
}

func (s *server) hangUp() {
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.conns = nil
}

// produce sends n requests, one after the other, or fewer in the time that it has.
func (s *server) produce(n int, longest time.Duration) turn {
	req := produceRequest("t", batchtest.Build(1, make([]byte, 100)))
	start, before := time.Now(), cpu()
	done := 0
	for ; done < n && time.Since(start) < longest; done++ {
		resp := s.raw.ask(req).(*kmsg.ProduceResponse)
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
			s.raw.t.Fatal(s.name, code)
		}
	}
	return turn{(cpu() - before) / time.Duration(done), time.Since(start) / time.Duration(done)}
}

func (s *server) median() (cpu, wall time.Duration) {
	of := func(figure func(turn) time.Duration) time.Duration {
		var all []time.Duration
		for _, t := range s.took {
			all = append(all, figure(t))
		}
		slices.Sort(all)
		return all[len(all)/2].Round(100 * time.Nanosecond)
	}
	return of(func(t turn) time.Duration { return t.cpu }), of(func(t turn) time.Duration { return t.wall })
}

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err) // it does not fail for oneself
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
