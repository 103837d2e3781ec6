package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the requests of this package are about, and the last versions without tagged fields.
const (
	topic          = "topic"
	produceVersion = 8
	fetchVersion   = 11
)

// serverMakers have one partition that clients produce to and fetch from. kfake waits for the bytes of a fetch in its own
// way; the others have a small server around the positions of one key, which counts bytes.
var serverMakers = []maker[broker]{
	{hand, "", func() broker { return startServer(newByHand()) }},
	{ours, "`AwaitAt`", func() broker { return startServer(newAwaits(timeout)) }},
	{theirs, "kfake", startKfake},
}

// broker is a server that runs.
type broker struct {
	address string
	stop    func()
}

func (b broker) Close() { b.stop() }

func startKfake() broker {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	must(err)
	return broker{c.ListenAddrs()[0], c.Close}
}

// server answers produces and fetches of one partition. A fetch is from its beginning.
type server struct {
	ctx  context.Context // of everybody who waits
	wait positions
	mu   sync.Mutex
	log  []byte
}

func startServer(wait positions) broker {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{ctx: ctx, wait: wait}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { c.Close() })
			all.Go(func() { s.serve(c) })
		}
	})
	return broker{listener.Addr().String(), func() {
		listener.Close()
		cancel()
		all.Wait()
		wait.Close()
	}}
}

func (s *server) serve(c net.Conn) {
	defer c.Close()
	for {
		frame, err := readFrame(c)
		if err != nil {
			return
		}
		key, version := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
		request := kmsg.RequestForKey(key)
		request.SetVersion(version)
		must(request.ReadFrom(frame[8+2:])) // after the correlation id, and a client id that is nil
		response, err := s.answer(request)
		if err != nil {
			return
		}
		out := append(make([]byte, 4, 256), frame[4:8]...)
		out = response.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

func (s *server) answer(request kmsg.Request) (kmsg.Response, error) {
	switch r := request.(type) {
	case *kmsg.ProduceRequest:
		s.mu.Lock()
		s.log = append(s.log, r.Topics[0].Partitions[0].Records...)
		s.wait.Advance(0, int64(len(s.log)))
		s.mu.Unlock()
		response := r.ResponseKind().(*kmsg.ProduceResponse)
		response.Topics = []kmsg.ProduceResponseTopic{{Topic: topic, Partitions: []kmsg.ProduceResponseTopicPartition{{}}}}
		return response, nil
	case *kmsg.FetchRequest:
		ctx, cancel := context.WithTimeout(s.ctx, time.Duration(r.MaxWaitMillis)*time.Millisecond)
		defer cancel()
		if err := s.wait.Wait(ctx, 0, int64(r.MinBytes)); err != nil && s.ctx.Err() != nil {
			return nil, err
		}
		s.mu.Lock()
		records := bytes.Clone(s.log)
		s.mu.Unlock()
		response := r.ResponseKind().(*kmsg.FetchResponse)
		response.Topics = []kmsg.FetchResponseTopic{{Topic: topic, Partitions: []kmsg.FetchResponseTopicPartition{{RecordBatches: records}}}}
		return response, nil
	default:
		return nil, fmt.Errorf("there is no answer to %T", request)
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func dial(address string) net.Conn {
	c, err := net.Dial("tcp", address)
	must(err)
	return c
}

var format = kmsg.NewRequestFormatter()

func send(c net.Conn, request kmsg.Request) {
	_, err := c.Write(format.AppendRequest(nil, request, 1))
	must(err)
}

func receive(c net.Conn, response kmsg.Response) {
	frame, err := readFrame(c)
	must(err)
	must(response.ReadFrom(frame[4:])) // after the correlation id
}

// produce sends records, which may be used again, and waits for the answer.
func produce(c net.Conn, records []byte) {
	request := &kmsg.ProduceRequest{Version: produceVersion, Acks: -1, TimeoutMillis: 1000, Topics: []kmsg.ProduceRequestTopic{
		{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: records}}},
	}}
	send(c, request)
	response := request.ResponseKind().(*kmsg.ProduceResponse)
	receive(c, response)
	if code := response.Topics[0].Partitions[0].ErrorCode; code != 0 {
		panic(fmt.Sprintf("produce: error %d", code))
	}
}

// fetch asks for so many bytes, and does not wait for the answer.
func fetch(c net.Conn, minBytes int32) *kmsg.FetchRequest {
	request := &kmsg.FetchRequest{
		Version: fetchVersion, ReplicaID: -1, MaxWaitMillis: 60_000, MinBytes: minBytes, MaxBytes: 1 << 30, SessionEpoch: -1,
		Topics: []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{
			{CurrentLeaderEpoch: -1, LogStartOffset: -1, PartitionMaxBytes: 1 << 30},
		}}},
	}
	send(c, request)
	return request
}

// batch is one record as Kafka stores it.
func batch(value []byte) []byte {
	record := kmsg.Record{Value: value}
	record.Length = int32(len(record.AppendTo(nil))) - 1
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1, Records: record.AppendTo(nil)}
	raw := b.AppendTo(nil)
	const length, crc, attributes = 8, 17, 21 // where these fields begin
	binary.BigEndian.PutUint32(raw[length:], uint32(len(raw)-length-4))
	binary.BigEndian.PutUint32(raw[crc:], crc32.Checksum(raw[attributes:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// produces is a record at a time, beside fetches that want more than ever comes.
func produces(b broker, fetches int, window time.Duration) map[string]float64 {
	for range fetches {
		c := dial(b.address)
		defer c.Close()
		fetch(c, 1<<29)
	}
	time.Sleep(20 * time.Millisecond) // the fetches come to wait
	producer, records := dial(b.address), batch(make([]byte, 100))
	defer producer.Close()
	return loop(window, 10, func() { produce(producer, records) })
}
