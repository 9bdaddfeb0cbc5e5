// Package route says by which transport a mail goes, and when. It has routes
// with weights and conditions, limits on how fast each may go, and what is done
// when one fails. It also decides whether anything is sent at all.
package route
