// Package dns asks a resolver for records: the little of it that checks of
// domains need.
//
// The reason for not using net.Resolver: it does not tell the aliases on the
// way to a record. It does not tell a missing name from a name without such
// records. It takes its server from the machine alone. Messages are packed and
// parsed by x/net/dns/dnsmessage.
package dns
