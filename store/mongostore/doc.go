// Package mongostore is everything MongoDB: the mirror of the series. It is the
// only package that speaks to it.
package mongostore
