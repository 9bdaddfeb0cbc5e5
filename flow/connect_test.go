package flow

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice/test/proxy"
	"sluice/test/servers"
)

// TestANewClientEndsWithItsContext: also when it waits for a server that takes the connection
// and does not answer, for as long as the library may. One that is made outlasts it.
func TestANewClientEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	way, err := proxy.New(server.Network(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = way.Close() })
	option, err := clientOption("redis://" + way.Addr())
	if err != nil {
		t.Fatal(err)
	}
	option.Dialer.Timeout, option.ConnWriteTimeout = time.Hour, time.Hour
	asked, err := way.Arm(proxy.Rule{Pattern: []byte("HELLO"), Stall: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type made struct {
		client rueidis.Client
		err    error
	}
	done := make(chan made, 1)
	begin := func() {
		go func() { // ends with the test: the proxy is closed
			client, err := newClient(ctx, option)
			done <- made{client, err}
		}()
	}
	begin()
	<-asked.Fired()
	cancel()
	var got made
	eventually(t, "it has ended", func() bool {
		select {
		case got = <-done:
			return true
		default:
			return false
		}
	})
	if got.client != nil || !errors.Is(got.err, context.Canceled) {
		t.Errorf("it says %v", got.err)
	}
	way.Resume()
	ctx, cancel = context.WithCancel(t.Context())
	begin()
	if got = <-done; got.err != nil {
		t.Fatal(got.err)
	}
	defer got.client.Close()
	cancel()
	if err := got.client.Do(t.Context(), got.client.B().Ping().Build()).Error(); err != nil {
		t.Errorf("after the end of the context by which it was made: %v", err)
	}
}
