// Package crowd bounds what strangers hold of a server: its connections, among
// whom the one that has been quiet longest makes room for the next, and the
// memory of what they send.
package crowd
