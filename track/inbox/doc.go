// Package inbox takes in the mail that comes back: bounces and answers of programs
// to the return path of each mail (package verp), complaints to the address of
// feedback loops. It makes events of them, as if they had been posted.
package inbox
