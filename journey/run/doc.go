// Package run moves people through journeys: it reads the facts of the store, enters
// people, and works off who is due. Package step decides, the records are in Redis
// (flow.Records).
package run
