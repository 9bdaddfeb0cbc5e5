package flow

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"
)

const (
	// probeTimeout bounds the question to one server what it is.
	probeTimeout = 2 * time.Second

	// parallelCalls bounds how many servers are asked at once.
	parallelCalls = 16
)

// errPassing is of a state of servers that may pass without a change of the
// configuration: a start waits for it.
var errPassing = errors.New("it may pass")

// wrongServer says why the servers of a URL cannot be used, and what to do.
type wrongServer struct {
	found, remedy string
	passes        bool
}

// Error is what was found and what to do.
func (w *wrongServer) Error() string { return w.found + "; " + w.remedy }

// Is reports whether the state may pass.
func (w *wrongServer) Is(target error) bool { return w.passes && target == errPassing }

// answers marks the error of a server that is there, although it may pass (IsSilent).
type answers struct{ error }

func (a answers) Unwrap() error { return a.error }

// whyNot explains the error with which no client could be made. It asks the servers
// what they are.
func whyNot(ctx context.Context, option rueidis.ClientOption, err error) error {
	if ctx.Err() != nil && !isReply(err) {
		return fmt.Errorf("it has not answered in time: %w; is it running?", ctx.Err())
	}
	info, where, probed := probe(ctx, option)
	if probed != nil {
		if isReply(probed) {
			return fmt.Errorf("%s refuses: %w; %s", where, probed, remedyOf(probed))
		}
		if wrong := otherWay(ctx, option, probed); wrong != nil {
			return wrong
		}
		probed = lostAlert(ctx, option, probed)
		if one := len(option.InitAddress) == 1; isAlert(probed) || refusesTLS(probed) && (one || !IsSilent(err)) { // of several, others may be away
			return fmt.Errorf("it cannot be used by TLS: %w; see its certificate, and what it asks of its clients (tls-auth-clients)", probed)
		}
		if len(option.InitAddress) > 1 {
			return fmt.Errorf("none of its %d addresses (%s) answers: %w; start them, and see that the URL, the port and the firewall are right",
				len(option.InitAddress), strings.Join(option.InitAddress, ", "), err)
		}
		return fmt.Errorf("%w; is it running?", err)
	}
	if wrong := judgeServer(option, where, info); wrong != nil {
		return wrong
	}
	if set := option.Sentinel.MasterSet; set != "" {
		// The library's error is that of the server which it asked last: the master, or another
		// sentinel. So it says nothing for good.
		return &wrongServer{fmt.Sprintf("the sentinel %s does not lead to a master of %s: %v", where, set, err),
			"see that the master runs, and that its address in `SENTINEL MASTER " + set + "` can be reached from here", true}
	}
	return err
}

// probe asks all servers of a URL at once for their INFO. It returns that of the first of
// the URL that answers: those before it may have vanished without a word.
func probe(ctx context.Context, option rueidis.ClientOption) (info map[string]string, where string, err error) {
	type answer struct {
		info map[string]string
		err  error
	}
	answers := make([]chan answer, len(option.InitAddress))
	for i, address := range option.InitAddress {
		answers[i] = make(chan answer, 1)
		go func() { // ends within the bounds of probeOne
			info, err := probeOne(ctx, option, address)
			answers[i] <- answer{info, err}
		}()
	}
	err = errors.New("it has no address")
	for i, address := range option.InitAddress {
		a := <-answers[i]
		if a.err == nil {
			return a.info, address, nil
		}
		if err = a.err; isReply(err) {
			return nil, address, err // a password: the others will say the same
		}
	}
	return nil, "", err
}

// isReply reports whether a server has answered with an error.
func isReply(err error) bool {
	_, is := errors.AsType[*rueidis.RedisError](err)
	return is
}

// otherWay returns that a server of a URL with TLS is reached without, or the other way
// round; nil: none is. Neither end says so by itself: a server without waits for the rest
// of a command, one with closes the connection. failed is the error of the URL's own way.
func otherWay(ctx context.Context, option rueidis.ClientOption, failed error) error {
	late, is := errors.AsType[net.Error](failed)
	if option.DialCtxFn != nil || option.TLSConfig == nil && is && late.Timeout() {
		return nil // a socket of this machine; one that does not even close
	}
	if option.TLSConfig == nil {
		for _, address := range option.InitAddress {
			if speaksTLS(ctx, address) {
				return &wrongServer{address + " speaks TLS, and the URL does not", "write rediss:// in place of redis://, rediss-sentinel:// in place of redis-sentinel://", false}
			}
		}
		return nil
	}
	plain := option
	plain.TLSConfig, plain.Sentinel.TLSConfig = nil, nil
	plain.Username, plain.Password, plain.Sentinel.Username, plain.Sentinel.Password = "", "", "", "" // nobody on the way is to read it
	if _, where, err := probe(ctx, plain); err == nil || isReply(err) {
		return &wrongServer{where + " speaks no TLS, and the URL does", "name the port that does (tls-port), or write redis:// in place of rediss://, redis-sentinel:// in place of rediss-sentinel://", false}
	}
	return nil
}

// speaksTLS reports whether a server answers a greeting by TLS. It is told nothing else.
func speaksTLS(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := (&tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
		return true
	}
	// One that nobody has signed, or that refuses the greeting, has spoken TLS as well.
	return refusesTLS(err)
}

// lostAlert returns the alert by which a server has ended the connection of a probe; none: the
// error of that. In TLS 1.3 the client has shaken hands before the server has seen its
// certificate. Its first command meets a closed connection then, and the alert is lost. So
// here nothing is written.
func lostAlert(ctx context.Context, option rueidis.ClientOption, failed error) error {
	network, is := errors.AsType[net.Error](failed)
	if option.TLSConfig == nil || is && network.Timeout() {
		return failed // a server that hangs
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for _, address := range option.InitAddress {
		conn, err := dialTCP(ctx, address, &option.Dialer, option.TLSConfig)
		if err == nil {
			end, _ := ctx.Deadline()
			_ = conn.SetReadDeadline(end)
			_, err = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
		if isAlert(err) {
			return err
		}
	}
	return failed
}

// refusesTLS reports whether one side has refused the other by TLS: a certificate that does
// not verify, or an alert of the server.
func refusesTLS(err error) bool {
	_, unsigned := errors.AsType[*tls.CertificateVerificationError](err)
	return unsigned || isAlert(err)
}

// isAlert reports whether a server has answered with an alert of TLS.
func isAlert(err error) bool {
	said, is := errors.AsType[*net.OpError](err)
	return is && said.Op == "remote error" // as crypto/tls calls it
}

func probeOne(ctx context.Context, option rueidis.ClientOption, address string) (map[string]string, error) {
	if set := option.Sentinel; set.MasterSet != "" {
		option.Username, option.Password, option.SelectDB, option.TLSConfig = set.Username, set.Password, 0, set.TLSConfig
	}
	option.InitAddress, option.Sentinel, option.ForceSingleClient = []string{address}, rueidis.SentinelOption{}, true
	option.Dialer.Timeout = probeTimeout
	client, err := newClient(ctx, option)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	text, err := client.Do(ctx, client.B().Info().Build()).ToString()
	return fieldsOf(text), err
}

// watched are the names of the masters that a sentinel watches, by its INFO.
func watched(info map[string]string) string {
	var names []string
	for i := 0; info["master"+strconv.Itoa(i)] != ""; i++ {
		name, _, _ := strings.Cut(strings.TrimPrefix(info["master"+strconv.Itoa(i)], "name="), ",")
		names = append(names, name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// judgeServer returns why a server with this INFO is not what a URL says; nil: it is.
func judgeServer(option rueidis.ClientOption, where string, info map[string]string) error {
	set, mode := option.Sentinel.MasterSet, cmp.Or(info["redis_mode"], info["server_mode"]) // the latter: Valkey
	switch {
	case set != "" && mode != "sentinel":
		return &wrongServer{fmt.Sprintf("%s is a server, no sentinel, and the URL names the master set %s", where, set),
			"name the addresses of the sentinels (port " + sentinelPort + "), or leave the master set out", false}
	case set != "":
		if names := watched(info); !slices.Contains(strings.Split(names, ", "), set) {
			return &wrongServer{fmt.Sprintf("the sentinel %s watches no master set %s, but: %s", where, set, names), "name one that it watches: redis-sentinel://HOST:PORT/NAME", false}
		}
		return nil
	case mode == "sentinel":
		return &wrongServer{fmt.Sprintf("%s is a sentinel, which holds no data, and the URL names no master set", where),
			"name the master set: redis-sentinel://HOST:PORT,HOST:PORT/NAME; it watches: " + watched(info), false}
	case mode == "cluster":
		return nil
	case len(option.InitAddress) > 1:
		return &wrongServer{fmt.Sprintf("%s is a server alone, and the URL has %d addresses", where, len(option.InitAddress)),
			"several addresses are for the nodes of one cluster, or for sentinels (redis-sentinel://); name one server", false}
	}
	return nil
}

// check returns why Sluice cannot work with what it has connected to.
func (r *Redis) check(ctx context.Context, option rueidis.ClientOption) error {
	if r.client.Mode() == rueidis.ClientModeCluster {
		return r.checkCluster(ctx)
	}
	info, err := r.Info(ctx, "default")
	if err != nil {
		return err
	}
	if option.Sentinel.MasterSet == "" {
		if wrong := judgeServer(option, r.host, info); wrong != nil {
			return wrong
		}
	}
	return checkVersion(r.host, info)
}

// TakesWrites returns why the server takes no writes: it is a replica. A master of
// sentinels or of a cluster is found anew when it is none any more.
func (r *Redis) TakesWrites(ctx context.Context) error {
	if r.client.Mode() == rueidis.ClientModeCluster {
		return nil
	}
	info, err := r.Info(ctx, "replication")
	if err != nil || info["role"] != "slave" {
		return err
	}
	return fmt.Errorf("connect to redis %s: %w", r, answers{&wrongServer{
		fmt.Sprintf("%s is a replica of %s and takes no writes", r.host, net.JoinHostPort(info["master_host"], info["master_port"])),
		"name the master, or let sentinels find it: redis-sentinel://HOST:PORT/NAME; to make it the master: REPLICAOF NO ONE", true}})
}

// checkVersion returns why a server is too old.
func checkVersion(where string, info map[string]string) error {
	if !newEnough(info["redis_version"]) {
		return &wrongServer{fmt.Sprintf("%s has version %q, which is too old", where, info["redis_version"]), "Sluice needs Redis 7.0 or newer, or Valkey", false}
	}
	return nil
}

// checkCluster looks at the slots of a cluster, and at the versions of its masters
// that answer.
func (r *Redis) checkCluster(ctx context.Context) error {
	nodes, err := r.clusterNodes(ctx)
	if err != nil {
		return err
	}
	if wrong := uncovered(nodes); wrong != nil {
		return wrong
	}
	for _, m := range r.masters(ctx) {
		if m.err == nil {
			if err := checkVersion(m.address, m.info); err != nil {
				return err
			}
		}
	}
	return nil
}

// uncovered returns which slots of a cluster no server has; nil: there are none.
func uncovered(nodes []clusterNode) error {
	have := make([]bool, slotsTotal)
	for _, n := range nodes {
		for _, span := range n.slots {
			for slot := span[0]; slot <= min(span[1], slotsTotal-1); slot++ {
				have[slot] = true
			}
		}
	}
	var missing []string
	for from := 0; from < slotsTotal; from++ {
		if have[from] {
			continue
		}
		to := from
		for to+1 < slotsTotal && !have[to+1] {
			to++
		}
		missing = append(missing, fmt.Sprintf("%d-%d", from, to))
		from = to
	}
	if len(missing) == 0 {
		return nil
	}
	const shown = 5
	text := strings.Join(missing[:min(shown, len(missing))], ", ")
	if len(missing) > shown {
		text += fmt.Sprintf(" and %d more spans", len(missing)-shown)
	}
	return &wrongServer{fmt.Sprintf("no server of the cluster has the slots %s", text),
		"give them to one: `redis-cli --cluster fix HOST:PORT`; a cluster that was not made yet: `redis-cli --cluster create`", true}
}

// clusterNode is a node of a cluster, as another one knows it.
type clusterNode struct {
	id, address string
	master      bool
	failed      bool   // the majority of the masters says so
	of          string // of a replica: the id of its master
	slots       [][2]int
	moving      []string // slots that come or go just now: a node tells its own alone
}

// has reports whether the node is the master of a slot.
func (n *clusterNode) has(slot int) bool {
	return slices.ContainsFunc(n.slots, func(s [2]int) bool { return s[0] <= slot && slot <= s[1] })
}

// parseNodes reads the answer to CLUSTER NODES.
// https://redis.io/docs/latest/commands/cluster-nodes/
func parseNodes(text string) (nodes []clusterNode) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 8 {
			continue
		}
		flags := strings.Split(words[2], ",")
		address, _, _ := strings.Cut(words[1], "@")
		n := clusterNode{id: words[0], address: address, master: slices.Contains(flags, "master"), failed: slices.Contains(flags, "fail"), of: words[3]}
		for _, word := range words[8:] {
			if strings.HasPrefix(word, "[") {
				slot, _, _ := strings.Cut(word[1:], "-") // [93-<-ID] comes from there, [77->-ID] goes there
				n.moving = append(n.moving, slot)
				continue
			}
			from, to, ok := strings.Cut(word, "-")
			if !ok {
				to = from
			}
			a, err1 := strconv.Atoi(from)
			b, err2 := strconv.Atoi(to)
			if err1 == nil && err2 == nil {
				n.slots = append(n.slots, [2]int{a, b})
			}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// clusterNodes asks the nodes of a cluster one by one, until one answers, for all
// nodes that it knows.
func (r *Redis) clusterNodes(ctx context.Context) ([]clusterNode, error) {
	var err error
	// A cluster without slots has no nodes for the library, but knows some itself.
	for _, c := range append(slices.Collect(maps.Values(r.client.Nodes())), r.client) {
		var text string
		ask, cancel := context.WithTimeout(ctx, probeTimeout)
		text, err = c.Do(ask, c.B().ClusterNodes().Build()).ToString()
		cancel()
		if err == nil {
			return parseNodes(text), nil
		}
	}
	return nil, r.wrap("read the nodes of the cluster", err)
}

// masterInfo is a server of a cluster that says that it is a master, or that does
// not answer.
type masterInfo struct {
	address string
	client  rueidis.Client
	info    map[string]string
	err     error
}

// masters asks all nodes of a cluster at once for their INFO. It returns those that
// are masters, by address, and those that do not answer.
func (r *Redis) masters(ctx context.Context) (all []masterInfo) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(parallelCalls)
	for address, c := range maps.All(r.client.Nodes()) {
		group.Go(func() error {
			text, err := c.Do(ctx, c.B().Info().Build()).ToString()
			m := masterInfo{address, c, fieldsOf(text), err}
			if err == nil && m.info["role"] == "slave" {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, m)
			return nil
		})
	}
	_ = group.Wait() // the errors are in all
	slices.SortFunc(all, func(a, b masterInfo) int { return cmp.Compare(a.address, b.address) })
	return all
}
