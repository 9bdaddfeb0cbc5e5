// Package imports brings files of events and users in, for the command and the API: how
// lines become events, what is still to be stored, and imports whose file comes in pieces.
package imports
