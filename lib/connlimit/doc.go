// Package connlimit bounds the server resources that unknown clients hold:
// connections and the memory of what they send. When all connections are taken,
// the one that has been quiet longest makes room for the next.
package connlimit
