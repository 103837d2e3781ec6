package recipes

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/signals/signalstest"
)

// etcdServer is a server in this process.
type etcdServer struct {
	t      *testing.T
	config *embed.Config
	server *embed.Etcd
}

func startEtcd(t *testing.T) *etcdServer {
	t.Helper()
	c := embed.NewConfig()
	c.Dir, c.UnsafeNoFsync, c.LogLevel, c.BcryptCost = t.TempDir(), true, "fatal", 4
	c.TickMs, c.ElectionMs = 10, 100
	client, peer := loopback(t), loopback(t)
	c.ListenClientUrls, c.AdvertiseClientUrls, c.ListenPeerUrls, c.AdvertisePeerUrls = client, client, peer, peer
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	s := &etcdServer{t: t, config: c}
	s.start()
	t.Cleanup(s.stop)
	return s
}

// loopback returns an address that is free, and the same one after a stop.
func loopback(t *testing.T) []url.URL {
	t.Helper()
	return []url.URL{{Scheme: "http", Host: signalstest.FreeAddress(t)}}
}

func (s *etcdServer) start() {
	e, err := embed.StartEtcd(s.config)
	require.NoError(s.t, err)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		require.FailNow(s.t, "etcd is not ready after a minute")
	}
	s.server = e
}

func (s *etcdServer) stop() { s.server.Close() }

// connect returns a client of a user; empty: of nobody.
func (s *etcdServer) connect(user string, through *conns) *clientv3.Client {
	s.t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.config.ListenClientUrls[0].String()}, DialTimeout: time.Minute, Username: user, Password: user,
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(through.dial),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond}, MinConnectTimeout: time.Second}),
		},
	})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	return c
}

// allow gives the user source the right to read the orders, or takes it away.
func (s *etcdServer) allow(root *clientv3.Client, yes bool) {
	var err error
	if yes {
		_, err = root.RoleGrantPermission(s.t.Context(), "reader", orders, clientv3.GetPrefixRangeEnd(orders), clientv3.PermissionType(clientv3.PermRead))
	} else {
		_, err = root.RoleRevokePermission(s.t.Context(), "reader", orders, clientv3.GetPrefixRangeEnd(orders))
	}
	require.NoError(s.t, err)
}

// secure makes the users root, who may do everything, and source.
func (s *etcdServer) secure() {
	ctx, c := s.t.Context(), s.connect("", new(conns))
	for user, role := range map[string]string{"root": "root", "source": "reader"} {
		_, err := c.RoleAdd(ctx, role)
		require.NoError(s.t, err)
		_, err = c.UserAdd(ctx, user, user)
		require.NoError(s.t, err)
		_, err = c.UserGrantRole(ctx, user, role)
		require.NoError(s.t, err)
	}
	s.allow(c, true)
	_, err := c.AuthEnable(ctx)
	require.NoError(s.t, err)
}

func TestConformanceOfAWatch(t *testing.T) {
	t.Parallel()
	s := startEtcd(t)
	s.secure()
	signalstest.Run(t, func(t *testing.T) signalstest.Engine[string] {
		s.t = t
		var hearing conns
		client, others := s.connect("source", &hearing), s.connect("root", new(conns))
		source := watch(client, orders)
		// The client keeps one stream for all its watches. It does not end the stream if the
		// last watch ends while it connects again, so the stream is made to be the test's.
		client.Watch(clientv3.WithRequireLeader(t.Context()), orders+"the stream")
		_, err := others.Delete(t.Context(), orders, clientv3.WithPrefix())
		require.NoError(t, err)
		return signalstest.Engine[string]{
			Source: func() signals.Source[string] { return source },
			Key:    orderKey,
			Write: func(ctx context.Context, key string, value int64) error {
				return insist(ctx, func(ctx context.Context) error {
					_, err := others.Put(ctx, key, fmt.Sprint(value))
					return err
				})
			},
			Read: func(ctx context.Context, key string) (value int64, err error) {
				err = insist(ctx, func(ctx context.Context) error {
					r, err := others.Get(ctx, key)
					if err != nil || len(r.Kvs) == 0 {
						return err
					}
					_, err = fmt.Sscan(string(r.Kvs[0].Value), &value)
					return err
				})
				return value, err
			},
			Cut:     hearing.cut,
			Resumes: true,
			Stop:    s.stop,
			Start:   s.start,
			Revoke:  func() { s.allow(others, false) },
			Restore: func() { s.allow(others, true) },
		}
	})
}

func TestAWatchResumesAndBeginsAnewAfterACompaction(t *testing.T) {
	t.Parallel()
	c := startEtcd(t).connect("", new(conns))
	put := func(key string) hint {
		r, err := c.Put(t.Context(), key, "")
		require.NoError(t, err)
		return hint{key, r.Header.Revision}
	}
	source, hints, ended := watch(c, orders), make(sink, 10), make(chan error, 1)
	run := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- source.Run(ctx, hints) }()
		return func() { cancel(); assert.ErrorIs(t, receive(t, ended), context.Canceled) }
	}
	stop := run()
	assert.Equal(t, hint{}, receive(t, hints))
	assert.Equal(t, put("orders/1"), receive(t, hints))
	stop()

	missed := []hint{put("orders/2"), put("orders/3")} // nobody listens
	stop = run()
	assert.Equal(t, hint{}, receive(t, hints))
	assert.Equal(t, missed[0], receive(t, hints))
	assert.Equal(t, missed[1], receive(t, hints))
	stop()

	put("orders/4")
	_, err := c.Compact(t.Context(), put("orders/5").position)
	require.NoError(t, err)
	run()
	assert.ErrorIs(t, receive(t, ended), rpctypes.ErrCompacted)
	for len(hints) > 0 {
		assert.Equal(t, hint{}, receive(t, hints))
	}
	stop = run()
	assert.Equal(t, hint{}, receive(t, hints))
	assert.Equal(t, put("orders/6"), receive(t, hints))
	stop()
	assert.Empty(t, hints)
}
