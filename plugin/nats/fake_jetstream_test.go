package nats_test

import (
	"encoding/json"
	"fmt"
	"strings"
)

// requestLocked answers a request to JetStream.
func (x *session) requestLocked(request, reply string, payload []byte) {
	x.requests++
	failing := x.requests <= enough && x.requests%x.plan.every == 0
	switch {
	case failing && x.plan.fault == apiLost:
		return
	case failing && x.plan.fault == apiBreaks:
		x.closeLocked()
		return
	case failing && x.plan.fault == apiFails:
		x.deliverLocked(reply, "", `{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`)
		return
	}
	switch {
	case strings.HasPrefix(request, "STREAM.INFO."):
		x.deliverLocked(reply, "", fmt.Sprintf(`{"config":{"name":"KV_%s"},"state":{"last_seq":%d}}`, bucket, len(x.s.stream)))
	case strings.HasPrefix(request, "CONSUMER.CREATE."):
		var asked struct {
			Config struct {
				DeliverSubject string `json:"deliver_subject"`
				OptStartSeq    int    `json:"opt_start_seq"`
			} `json:"config"`
		}
		if err := json.Unmarshal(payload, &asked); err != nil {
			panic(err)
		}
		x.consumer = &consumer{to: asked.Config.DeliverSubject, next: len(x.s.stream)}
		if n := asked.Config.OptStartSeq; n > 0 {
			x.consumer.next = n - 1
		}
		if x.plan.early {
			x.consumeLocked()
		}
		x.deliverLocked(reply, "", `{"stream_name":"KV_`+bucket+`","name":"C","config":{"deliver_subject":"`+x.consumer.to+`"}}`)
		x.consumeLocked()
	default:
		x.deliverLocked(reply, "", `{"success":true}`)
	}
}

// consumeLocked sends what the consumer has not sent.
func (x *session) consumeLocked() {
	c := x.consumer
	if c == nil {
		return
	}
	for ; c.next < len(x.s.stream); c.next++ {
		c.delivered++
		if x.plan.fault == drops && c.delivered%(x.plan.every+1) == 0 {
			continue
		}
		ack := fmt.Sprintf("$JS.ACK.KV_%s.C.1.%d.%d.1700000000000000000.0", bucket, c.next+1, c.delivered)
		for range map[bool]int{false: 1, true: 2}[x.plan.twice && c.delivered%5 == 0] {
			x.deliverToLocked(c.to, "$KV."+bucket+"."+x.s.stream[c.next], ack, "NATS/1.0\r\nNats-Msg-Size: 1\r\n\r\n", "")
		}
	}
}
