// Command ferretdb is a small server that speaks MongoDB's protocol, for tests
// and benches: FerretDB on SQLite files. It is a module of its own, so that
// nothing it needs becomes a dependency of the program; scripts/install-deps.sh
// builds it, package servers starts it. A change here needs another Version in
// test/servers/mongo.go and in the script, or the old program stays in use.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	dir := flag.String("dir", "", "existing `DIRECTORY` of the files")
	socket := flag.String("socket", "", "`PATH` of the socket")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := serve(ctx, *dir, *socket); err != nil {
		fmt.Fprintln(os.Stderr, "ferretdb:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, dir, socket string) error {
	// One that was killed leaves its socket behind. No other process listens on
	// it: the process that starts us holds the lock of the directory.
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket of the one before: %w", err)
	}
	server, err := ferretdb.New(&ferretdb.Config{
		Listener: ferretdb.ListenerConfig{Unix: socket}, Handler: "sqlite", SQLiteURL: "file:" + dir + "/",
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	return server.Run(ctx)
}
