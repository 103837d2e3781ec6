package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// values are so many numbered records.
func values(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%06d", i))
	}
	return all
}

// saramaGroup counts what a group's member reads.
type saramaGroup struct{ seen chan string }

func (saramaGroup) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (saramaGroup) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (g saramaGroup) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		session.MarkMessage(m, "")
		g.seen <- string(m.Value)
	}
	return nil
}

// TestSarama produces, consumes in a group and administrates.
func TestSarama(t *testing.T) {
	c := start(t, testConfig())
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.RequiredAcks, config.Producer.Return.Successes = sarama.WaitForAll, true
	config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	admin, err := sarama.NewClusterAdmin(c.Addrs(), config)
	require.NoError(t, err)
	require.NoError(t, admin.CreateTopic("sarama", &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 3}, false))

	producer, err := sarama.NewSyncProducer(c.Addrs(), config)
	require.NoError(t, err)
	var messages []*sarama.ProducerMessage
	for _, value := range values(300) {
		messages = append(messages, &sarama.ProducerMessage{Topic: "sarama", Value: sarama.StringEncoder(value)})
	}
	require.NoError(t, producer.SendMessages(messages))
	require.NoError(t, producer.Close())

	group, err := sarama.NewConsumerGroup(c.Addrs(), "sarama", config)
	require.NoError(t, err)
	consuming, stop := context.WithCancel(ctx(t))
	g, ended := saramaGroup{make(chan string, 1000)}, make(chan error)
	go func() {
		var err error
		for err == nil && consuming.Err() == nil {
			err = group.Consume(consuming, []string{"sarama"}, g)
		}
		ended <- err
	}()
	seen := make(map[string]bool)
	for len(seen) < 300 {
		select {
		case value := <-g.seen:
			seen[value] = true
		case <-ctx(t).Done():
			t.Fatalf("saw %d", len(seen))
		}
	}
	stop()
	if err := <-ended; err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, group.Close())

	topics, err := admin.DescribeTopics([]string{"sarama"})
	require.NoError(t, err)
	require.Len(t, topics[0].Partitions, 3)
	require.NoError(t, admin.Close())
	requireNothingWaits(t, c)
}

// TestKafkaGo produces and consumes in a group.
func TestKafkaGo(t *testing.T) {
	c := start(t, testConfig())
	create(t, client(t, c), "kafka-go", 3, 3)
	transport := &kafka.Transport{}
	writer := &kafka.Writer{
		Addr: kafka.TCP(c.Addrs()...), Topic: "kafka-go", RequiredAcks: kafka.RequireAll,
		BatchTimeout: 10 * time.Millisecond, Transport: transport,
	}
	var messages []kafka.Message
	for _, value := range values(300) {
		messages = append(messages, kafka.Message{Value: []byte(value)})
	}
	require.NoError(t, writer.WriteMessages(ctx(t), messages...))
	require.NoError(t, writer.Close())
	transport.CloseIdleConnections()

	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: c.Addrs(), Topic: "kafka-go", GroupID: "kafka-go", StartOffset: kafka.FirstOffset,
		MinBytes: 1, MaxBytes: 1 << 20, MaxWait: 100 * time.Millisecond,
		HeartbeatInterval: 100 * time.Millisecond, SessionTimeout: 2 * time.Second, RebalanceTimeout: 2 * time.Second,
	})
	seen := make(map[string]bool)
	for len(seen) < 300 {
		m, err := reader.ReadMessage(ctx(t))
		require.NoError(t, err)
		seen[string(m.Value)] = true
	}
	require.NoError(t, reader.Close())
	requireNothingWaits(t, c)
}

// TestKcat is librdkafka: it produces, compressed too, and consumes, alone and in a
// group that is new, as cmd/broker prints it.
func TestKcat(t *testing.T) {
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Skip("kcat is not installed (Debian: apt-get install kcat)")
	}
	c := start(t, testConfig())
	cl := client(t, c)
	bootstrap := strings.Join(c.Addrs(), ",")
	kcat := func(in string, enough int, args ...string) []string {
		t.Helper()
		bounded, cancel := context.WithCancel(ctx(t))
		defer cancel()
		cmd := exec.CommandContext(bounded, "kcat", append([]string{"-b", bootstrap}, args...)...)
		cmd.Stdin = strings.NewReader(in)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		var lines []string
		buffer := make([]byte, 64<<10)
		text := ""
		for {
			n, err := out.Read(buffer)
			text += string(buffer[:n])
			lines = strings.Fields(text)
			if err != nil {
				break
			}
			if enough > 0 && len(lines) >= enough {
				require.NoError(t, cmd.Process.Signal(os.Interrupt))
				enough = 0
			}
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		t.Logf("kcat %v: %d lines %s", args, len(lines), errs.String())
		return lines
	}
	want := values(300)
	for _, codec := range []string{"none", "gzip", "lz4", "snappy", "zstd"} {
		topic := "kcat-" + codec
		create(t, cl, topic, 3, 3)
		kcat(strings.Join(want, "\n"), 0, "-t", topic, "-P", "-X", "acks=all", "-X", "enable.idempotence=true", "-z", codec)
		got := kcat("", 0, "-t", topic, "-C", "-o", "beginning", "-e", "-q")
		slices.Sort(got)
		require.Equal(t, want, got, codec)
	}
	got := kcat("", len(want), "-X", "auto.offset.reset=earliest", "-q", "-u", "-G", "readers", "kcat-none")
	slices.Sort(got)
	require.Equal(t, want, got)
	cl.Close()
	requireNothingWaits(t, c)
}
