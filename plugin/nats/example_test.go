package nats_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// A wait that a hint ends, over TLS with a certificate of a private authority. The connection
// has the options that a source needs: it never gives up.
func Example_tls() {
	certificate, authority := certify()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		TLS: true, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}, TLSTimeout: 10,
	})
	check(err)
	go s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(10 * time.Second) {
		panic("the server does not start")
	}

	nc, err := nats.Connect(fmt.Sprintf("tls://127.0.0.1:%d", s.Addr().(*net.TCPAddr).Port),
		nats.Secure(&tls.Config{RootCAs: authority}),
		nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.ReconnectWait(100*time.Millisecond))
	check(err)
	defer nc.Close()
	source, err := natssignals.Subjects(nc, "hints.orders")
	check(err)

	p, err := purgatory.New[string]("orders")
	check(err)
	defer p.Close()
	hints, err := signals.To(p)
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- hints.Run(ctx, source) }()

	var state atomic.Int64 // stands for a database
	go func() {            // stands for a writer in another process
		state.Store(7)
		check(natssignals.Hint(nc, "hints.orders", "order 17", 7))
	}()
	value, err := signals.AwaitRead(ctx, p, time.Minute, func(context.Context) (int64, bool, error) {
		v := state.Load()
		return v, v > 0, nil
	}, "order 17")
	check(err)
	fmt.Println("version", value)
	stop()
	fmt.Println(<-ended)
	// Output:
	// version 7
	// context canceled
}

// certify returns a certificate for 127.0.0.1 that signs itself, and a pool with it.
func certify() (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(err)
	parsed, err := x509.ParseCertificate(der)
	check(err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
