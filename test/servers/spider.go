package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// spiderPlugin is where Debian's package mariadb-plugin-spider has the engine.
const spiderPlugin = "/usr/lib/mysql/plugin/ha_spider.so"

// Spider is a MariaDB whose engine Spider keeps tables on other servers, and these.
type Spider struct {
	Head   *MariaDB
	Shards []*MariaDB
}

// StartSpider starts a head with some arguments, and shards. Close kills all of them.
//
// Each shard has an address of its own. Spider tells the members of a transaction apart by
// their hosts: two shards of one host with two ports would be refused at COMMIT.
func StartSpider(ctx context.Context, dir string, head []string, shards int) (*Spider, error) {
	if _, err := os.Stat(spiderPlugin); err != nil {
		return nil, fmt.Errorf("start spider: %w; run `make deps-test` (Debian and Ubuntu: package mariadb-plugin-spider)", err)
	}
	s := &Spider{}
	err := s.start(ctx, dir, head, shards)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start spider in %s: %w", dir, err), s.Close())
	}
	return s, nil
}

func (s *Spider) start(ctx context.Context, dir string, head []string, shards int) (err error) {
	for i := range shards {
		m, err := StartMariaDB(ctx, MariaDBOptions{Dir: filepath.Join(dir, "shard"+strconv.Itoa(i)), Extra: []string{"--bind-address=" + shardHost(i)}})
		if err != nil {
			return err
		}
		s.Shards = append(s.Shards, m)
	}
	s.Head, err = StartMariaDB(ctx, MariaDBOptions{Dir: filepath.Join(dir, "head"), Extra: append([]string{"--plugin-load-add=ha_spider"}, head...)})
	return err
}

func shardHost(i int) string { return "127.0.0." + strconv.Itoa(i+2) }

// ShardAddr returns host:port of a shard.
func (s *Spider) ShardAddr(i int) string {
	return net.JoinHostPort(shardHost(i), strconv.Itoa(s.Shards[i].Port()))
}

// Close kills all servers.
func (s *Spider) Close() error {
	var errs []error
	for _, m := range append(s.Shards, s.Head) {
		if m != nil {
			errs = append(errs, m.Kill())
		}
	}
	return errors.Join(errs...)
}
