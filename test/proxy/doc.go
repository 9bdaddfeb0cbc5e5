// Package proxy breaks and slows connections for tests and benches. A Proxy cuts,
// delays and stalls the connections between the program and its servers at a
// chosen byte. A Line delays what passes, as a long way does.
package proxy
