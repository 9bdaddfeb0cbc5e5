// Package child starts a server as a child process: the embedded Redis of the
// program, and by package servers those of tests and benches. It knows how to
// start, await, stop, kill, pause and restart one. It knows nothing of its use: it
// speaks just enough of Redis's protocol to know that the server is ready.
//
// A server here
//   - listens on a unix socket or on 127.0.0.1, never further;
//   - reads no configuration of the machine, only what its starter gives it;
//   - owns its directory: a second server on the same directory is refused, and
//     a predecessor that is just dying is waited for (lock.go);
//   - dies with the program that started it, however that ends (process.go);
//   - has a process group of its own, so that Ctrl-C in a terminal reaches the
//     program only, which then stops its servers in its own order.
//
// A program that is missing is an error that names the package to install.
package child
