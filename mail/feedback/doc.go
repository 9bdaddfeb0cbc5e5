// Package feedback stops mail that receivers do not want: that of a route, or with a
// tag, of which too much bounces, is blocked or is complained of.
package feedback
