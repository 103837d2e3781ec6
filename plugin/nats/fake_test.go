package nats_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// enough is how often a server that goes on refuses or loses something. The right to inboxes comes back only with
// the next connection, because the client subscribes to its inbox once.
const enough = 6

// scripted is a NATS server of whose every answer a seed decides. The client library is the real one,
// and speaks to it over pipes in memory.
type scripted struct {
	seed  uint64
	calm  bool // nothing goes wrong
	deaf  bool // but that nothing is delivered
	deny  bool // nobody may subscribe to inboxes
	mu    sync.Mutex
	plans []plan // of the connections so far
	open  []*session
	state map[string]int64

	stream []string // the keys that were written; the index is the revision minus one
	beats  int      // heartbeats of a source elsewhere
}

// session is a connection, as the server sees it. The server's mutex guards its fields.
type session struct {
	s      *scripted
	plan   plan
	conn   net.Conn
	queue  chan string
	over   chan struct{}
	closed bool
	silent bool

	hearsNothing bool              // subscriptions are accepted, and nothing is delivered
	stands       bool              // the server has answered the first PING
	subs         map[string]string // by sid: the subject
	requests     int
	refused      int // subscriptions
	consumer     *consumer
	cutUntil     int // heartbeats from elsewhere up to this one are lost, and hints with them
}

// consumer sends a bucket's entries.
type consumer struct {
	to        string
	delivered int // by its own count
	next      int // the index of the next entry in the stream
}

// Dial implements nats.CustomDialer.
func (s *scripted) Dial(string, string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.plan(len(s.plans))
	s.plans = append(s.plans, p)
	if p.fault == refused {
		return nil, errors.New("connection refused")
	}
	ours, theirs := net.Pipe()
	x := &session{s: s, plan: p, conn: ours, queue: make(chan string, 10_000), over: make(chan struct{}), subs: map[string]string{}, cutUntil: -1}
	s.open = append(s.open, x)
	switch p.fault {
	case anew:
		s.stream = s.stream[:len(s.stream)/2]
	case breaks, forgotten, revoked, deafened:
		time.AfterFunc(p.after, x.fail)
	}
	x.putLocked(info)
	go x.serve()
	go x.send()
	return theirs, nil
}

const info = `INFO {"server_id":"S","version":"2.15.2","proto":1,"headers":true,"max_payload":1048576}` + "\r\n"

// fail is what happens after a while.
func (x *session) fail() {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	switch x.plan.fault {
	case breaks:
		x.closeLocked()
	case silent:
		x.silent = true
	case forgotten:
		x.consumer = nil
	case deafened:
		x.hearsNothing = true
		time.AfterFunc(15*time.Second, func() {
			x.s.mu.Lock()
			x.hearsNothing = false
			x.s.mu.Unlock()
		})
	case revoked:
		for sid, subject := range x.subs {
			if !strings.HasPrefix(subject, "_INBOX.") {
				delete(x.subs, sid)
				x.putLocked(fmt.Sprintf("-ERR 'Permissions Violation for Subscription to \"%s\"'\r\n", subject))
			}
		}
	}
}

func (x *session) closeLocked() {
	if !x.closed {
		x.closed = true
		close(x.over)
		_ = x.conn.Close()
		for i, other := range x.s.open {
			if other == x {
				x.s.open = append(x.s.open[:i:i], x.s.open[i+1:]...)
				break
			}
		}
	}
}

func (x *session) putLocked(text string) {
	if !x.silent && !x.closed {
		x.queue <- text
	}
}

// send sends what is queued.
func (x *session) send() {
	for {
		select {
		case text := <-x.queue:
			// The client holds a mutex until it is connected, and in a bubble no time passes while others wait for one.
			if text != info && text != "PONG\r\n" {
				time.Sleep(x.plan.delay)
			}
			if _, err := io.WriteString(x.conn, text); err != nil {
				return
			}
		case <-x.over:
			return
		}
	}
}

// message is what the client says at once.
type message struct {
	words   []string
	payload []byte
}

// serve reads what the client says, until the connection is closed.
func (x *session) serve() {
	r := bufio.NewReader(x.conn)
	said := make(chan message, 10_000)
	defer close(said)
	go x.work(said)
	for {
		line, err := r.ReadString('\n')
		m := message{words: strings.Fields(line)}
		if n := len(m.words); err == nil && n > 2 && strings.HasSuffix(m.words[0], "PUB") {
			size, _ := strconv.Atoi(m.words[n-1])
			m.payload = make([]byte, size+2)
			_, err = io.ReadFull(r, m.payload)
		}
		if err != nil {
			x.s.mu.Lock()
			x.closeLocked()
			x.s.mu.Unlock()
			return
		}
		said <- m
	}
}

// work does what the client has said, a little later.
func (x *session) work(said <-chan message) {
	for m := range said {
		if m.words[0] != "CONNECT" && m.words[0] != "PING" { // see send
			time.Sleep(x.plan.delay)
		}
		x.s.mu.Lock()
		if !x.closed {
			x.takeLocked(m.words, m.payload)
		}
		x.s.mu.Unlock()
	}
}

func (x *session) takeLocked(words []string, payload []byte) {
	switch words[0] {
	case "PING":
		x.putLocked("PONG\r\n")
		if x.plan.fault == silent && !x.stands {
			time.AfterFunc(x.plan.after, x.fail)
		}
		x.stands = true
	case "SUB":
		subject := words[1]
		inbox := strings.HasPrefix(subject, "_INBOX.")
		if (x.plan.fault == inboxRefused || x.s.deny) && inbox || (x.plan.fault == inboxRefused || x.plan.fault == subsRefused) && !inbox && x.refused < enough {
			if !inbox {
				x.refused++
			}
			x.putLocked(fmt.Sprintf("-ERR 'Permissions Violation for Subscription to \"%s\"'\r\n", subject))
			return
		}
		x.subs[words[len(words)-1]] = subject
		if !inbox && x.plan.fault == routeIsCut {
			for _, after := range []time.Duration{6 * time.Second, 14 * time.Second} { // once the heartbeats of both have been heard
				time.AfterFunc(after+x.plan.after, func() {
					x.s.mu.Lock()
					x.cutUntil = x.s.beats + x.plan.every
					x.s.mu.Unlock()
				})
			}
		}
	case "UNSUB":
		if c := x.consumer; c != nil && c.to == x.subs[words[1]] {
			x.consumer = nil
		}
		delete(x.subs, words[1])
	case "PUB":
		reply := ""
		if len(words) == 4 {
			reply = words[2]
		}
		x.publishLocked(words[1], reply, payload[:len(payload)-2])
	}
}

// publishLocked takes a message of the client.
func (x *session) publishLocked(subject, reply string, payload []byte) {
	if request, ok := strings.CutPrefix(subject, "$JS.API."); ok {
		x.requestLocked(request, reply, payload)
		return
	}
	heard := false
	for _, other := range append([]*session(nil), x.s.open...) {
		heard = other.deliverLocked(subject, "", string(payload)) || heard
	}
	if !heard && reply != "" {
		x.deliverLocked(reply, "NATS/1.0 503\r\n\r\n", "")
	}
}

// deliverLocked sends a message to the subscriptions to its subject, and reports whether there is one.
func (x *session) deliverLocked(subject, header, payload string) (heard bool) {
	return x.deliverToLocked(subject, subject, "", header, payload)
}

// deliverToLocked sends a message to the subscriptions to another subject than its own, as a consumer does.
func (x *session) deliverToLocked(to, subject, reply, header, payload string) (heard bool) {
	if (x.s.deaf || x.hearsNothing) && strings.Count(to, ".") != 2 { // an answer to a request comes on _INBOX.client.request
		return true
	}
	for sid, pattern := range x.subs {
		if pattern != to && (!strings.HasSuffix(pattern, ">") && !strings.HasSuffix(pattern, "*") || !strings.HasPrefix(to, pattern[:len(pattern)-1])) {
			continue
		}
		heard = true
		words := strings.TrimSpace("MSG " + subject + " " + sid + " " + reply)
		sizes := strconv.Itoa(len(payload))
		if header != "" {
			words, sizes = "H"+words, strconv.Itoa(len(header))+" "+strconv.Itoa(len(header)+len(payload))
		}
		x.putLocked(words + " " + sizes + "\r\n" + header + payload + "\r\n")
	}
	return heard
}

// run sends the heartbeats of the server, and those of a source elsewhere, until stop is called.
func (s *scripted) run() (stop func()) {
	over := make(chan struct{})
	go func() {
		for {
			select {
			case <-time.After(time.Second):
			case <-over:
				return
			}
			s.mu.Lock()
			s.beats++
			s.elsewhereLocked("=beat", fmt.Sprint("elsewhere ", s.beats))
			for _, x := range s.open {
				if c := x.consumer; c != nil {
					x.deliverLocked(c.to, fmt.Sprintf("NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n", c.delivered, c.next), "")
				}
			}
			s.mu.Unlock()
		}
	}()
	return func() {
		close(over)
		s.cut()
	}
}

// denyInboxes takes away the right to inboxes.
func (s *scripted) denyInboxes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deny = true
	for _, x := range s.open {
		for sid, subject := range x.subs {
			if strings.HasPrefix(subject, "_INBOX.") {
				delete(x.subs, sid)
				x.putLocked(fmt.Sprintf("-ERR 'Permissions Violation for Subscription to \"%s\"'\r\n", subject))
			}
		}
	}
}

// allowInboxes gives it back.
func (s *scripted) allowInboxes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deny = false
}

// elsewhereLocked delivers what was published at another server.
func (s *scripted) elsewhereLocked(token, payload string) {
	for _, x := range append([]*session(nil), s.open...) {
		if s.beats > x.cutUntil {
			x.deliverLocked(prefix+"."+token, "", payload)
		}
	}
}

func (s *scripted) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.open) > 0 {
		s.open[0].closeLocked()
	}
}

// connections returns how many connections are open.
func (s *scripted) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}
