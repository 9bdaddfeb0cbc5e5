// Package imports has what the command and the API share of importing files: how lines
// become events, and what is still to be stored.
package imports
