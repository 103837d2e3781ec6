package postgres_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/delayedop/purgatory/plugin/postgres"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/signals/signalstest"
)

// server is a PostgreSQL server of whose every answer a seed decides. The client library is the real
// one, and speaks to it over pipes in memory.
type server struct {
	seed  uint64
	mu    sync.Mutex
	state map[string]int64
	fates []plan // of the first connections; the seed decides of the others
	plans []plan // of the connections so far
	open  map[*session]bool
}

// session is a connection, as the server sees it.
type session struct {
	s         *server
	plan      plan
	conn      net.Conn
	queue     chan pgproto3.BackendMessage // what is sent in order
	over      chan struct{}
	listening bool // guarded by s.mu
	silent    bool // likewise

	hearsNothing bool // likewise
	sent         int
	own          string // the second channel
}

func newServer(seed uint64) *server {
	return &server{seed: seed, state: map[string]int64{}, open: map[*session]bool{}}
}

// dial is what the client library dials with.
func (s *server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	s.mu.Lock()
	p := s.plan(len(s.plans))
	s.plans = append(s.plans, p)
	s.mu.Unlock()
	if p.fault == refused {
		return nil, errors.New("connection refused")
	}
	ours, theirs := net.Pipe()
	x := &session{s: s, plan: p, conn: ours, queue: make(chan pgproto3.BackendMessage, 10_000), over: make(chan struct{})}
	s.mu.Lock()
	s.open[x] = true
	s.mu.Unlock()
	go x.serve()
	return theirs, nil
}

// connect is the user's function.
func (s *server) connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("host=127.0.0.1 user=u database=d sslmode=disable connect_timeout=5 default_query_exec_mode=simple_protocol")
	if err != nil {
		return nil, err
	}
	config.DialFunc = s.dial
	return pgx.ConnectConfig(ctx, config)
}

func (x *session) close() {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	if x.s.open[x] {
		delete(x.s.open, x)
		close(x.over)
		_ = x.conn.Close()
	}
}

// serve answers until the connection is closed.
func (x *session) serve() {
	defer x.close()
	b := pgproto3.NewBackend(x.conn, x.conn)
	if x.plan.fault == silentAtOnce {
		x.hush()
	}
	first, err := b.ReceiveStartupMessage()
	if err != nil {
		return
	}
	if _, start := first.(*pgproto3.StartupMessage); !start { // it asks to cancel a statement
		return
	}
	go x.send(b)
	if x.plan.fault == starting {
		x.put(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P03", Message: "the database system is starting up"})
	} else {
		x.put(&pgproto3.AuthenticationOk{}, &pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"},
			&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"}, &pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 2}}, ready)
	}
	switch x.plan.fault {
	case breaks, silent, deafLater, otherSession:
		time.AfterFunc(x.plan.after, x.fail)
	}
	for {
		m, err := b.Receive()
		if err != nil {
			return
		}
		if q, query := m.(*pgproto3.Query); query {
			time.Sleep(x.plan.delay)
			x.answer(q.String)
		}
	}
}

var ready = &pgproto3.ReadyForQuery{TxStatus: 'I'}

// hush lets nothing leave any more.
func (x *session) hush() {
	x.s.mu.Lock()
	x.silent = true
	x.s.mu.Unlock()
}

// fail is what happens after a while.
func (x *session) fail() {
	switch x.plan.fault {
	case silent:
		x.hush()
	case otherSession:
		x.listen(false)
	case deafLater:
		x.s.mu.Lock()
		x.hearsNothing = true
		x.s.mu.Unlock()
	default:
		x.close()
	}
}

// deaf reports whether no notification gets through any more.
func (x *session) deaf() bool {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	return x.hearsNothing || x.plan.fault == deafAtOnce
}

// put queues messages.
func (x *session) put(messages ...pgproto3.BackendMessage) {
	for _, m := range messages {
		select {
		case x.queue <- m:
		case <-x.over:
		}
	}
}

// send sends what is queued.
func (x *session) send(b *pgproto3.Backend) {
	for {
		select {
		case m := <-x.queue:
			if _, notice := m.(*pgproto3.NotificationResponse); notice {
				if x.deaf() {
					continue
				}
				time.Sleep(x.plan.delay)
			}
			x.s.mu.Lock()
			silent := x.silent
			x.s.mu.Unlock()
			if silent {
				continue
			}
			if b.Send(m); b.Flush() != nil {
				return
			}
		case <-x.over:
			return
		}
	}
}

func (x *session) answer(query string) {
	failed := &pgproto3.ErrorResponse{Severity: "ERROR", Code: "XX000", Message: "an error of the program"}
	var tag string
	at := x.plan.fault
	switch {
	case strings.HasPrefix(query, "LISTEN "):
		tag = "LISTEN"
		switch at {
		case listenFails:
			x.put(failed, ready)
			return
		case listenLost, listenSilent:
			x.own = strings.Split(query, `"`)[3]
			x.listen(x.plan.began)
			if at == listenLost {
				x.close()
			}
			return
		}
		x.own = strings.Split(query, `"`)[3]
		x.listen(true)
	case strings.HasPrefix(query, "DO "):
		tag = "DO"
		if at == settingsFail {
			x.put(failed, ready)
			return
		}
	case strings.HasPrefix(query, "SELECT pg_notification_queue_usage()"):
		tag = "SELECT 1"
		switch at {
		case askFails:
			x.put(failed, ready)
			return
		case askSilent:
			return
		}
		field := func(name string, oid uint32) pgproto3.FieldDescription {
			return pgproto3.FieldDescription{Name: []byte(name), DataTypeOID: oid, TypeModifier: -1}
		}
		x.s.mu.Lock()
		listens := x.listening
		x.s.mu.Unlock()
		x.put(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{field("used", 701), field("pid", 23), field("listens", 16)}},
			&pgproto3.DataRow{Values: [][]byte{[]byte("0.25"), []byte(strconv.Itoa(x.pid())), []byte(map[bool]string{true: "t", false: "f"}[listens])}})
	case strings.HasPrefix(query, "SELECT pg_notify("):
		literals := strings.Split(query, "'")
		x.s.echo(literals[1], literals[3])
	case query == ";" || query == "-- ping":
		x.put(&pgproto3.EmptyQueryResponse{}, ready)
		return
	}
	x.put(&pgproto3.CommandComplete{CommandTag: []byte(tag)}, ready)
}

// pid is the process that answers. A pooler tells its clients another one.
func (x *session) pid() int {
	if x.plan.pooled {
		return 2
	}
	return 1
}

// echo tells the sessions that listen on a channel, other than that of the hints.
func (s *server) echo(channel, payload string) {
	for _, x := range s.sessions(true) {
		if x.own == channel {
			x.put(&pgproto3.NotificationResponse{PID: 1, Channel: channel, Payload: payload})
		}
	}
}

func (x *session) listen(begin bool) {
	x.s.mu.Lock()
	x.listening = begin
	x.s.mu.Unlock()
}

// notify tells one listener.
func (x *session) notify(payload string) {
	m := &pgproto3.NotificationResponse{PID: 1, Channel: "hints", Payload: payload}
	x.sent++
	if x.plan.strange && x.sent%3 == 0 {
		x.put(&pgproto3.NotificationResponse{PID: 1, Channel: "hints", Payload: "x 1 somebody else's"}, &pgproto3.NoticeResponse{Severity: "NOTICE", Message: "a notice"})
	}
	x.put(m)
	if x.plan.twice > 0 && x.sent%x.plan.twice == 0 {
		x.put(m)
	}
}

func (s *server) cut() {
	for _, x := range s.sessions(false) {
		x.close()
	}
}

// sessions returns those that are open, or that listen.
func (s *server) sessions(listening bool) (all []*session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := range s.open {
		if x.listening || !listening {
			all = append(all, x)
		}
	}
	return all
}

// write commits a change, with its notification.
func (s *server) write(ctx context.Context, key string, value int64) error {
	s.mu.Lock()
	s.state[key] = value
	s.mu.Unlock()
	payload := " " + key
	if s.seed%2 == 0 {
		payload = strconv.FormatInt(value, 10) + payload
	}
	for _, x := range s.sessions(true) {
		x.notify(payload)
	}
	return nil
}

func (s *server) read(_ context.Context, key string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state[key], nil
}

func (s *server) source() *postgres.Source {
	source, err := postgres.Listen(s.connect, "hints")
	if err != nil {
		panic(err)
	}
	return source
}

// engine has one source, which is run again and again, as in a program.
func (s *server) engine() signalstest.Engine[string] {
	source := s.source()
	return signalstest.Engine[string]{
		Source: func() signals.Source[string] { return source },
		Key:    func(i int) string { return "k " + strconv.Itoa(i) },
		Write:  s.write,
		Read:   s.read,
		Cut:    s.cut,
	}
}
