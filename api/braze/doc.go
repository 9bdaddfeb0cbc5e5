// Package braze speaks the dialect of Braze's REST API. It reads the bodies and
// queries of its calls, makes updates of users of them, and answers in its
// words. A team that uses that API changes base URL and key, and nothing else.
//
// It is a function from requests to replies. Connections, bodies, keys and the
// headers that all replies have are the business of package api, which mounts
// the endpoints. Users and mail are changed through Core. All else is read, and
// schedules and suppressions are changed, through Stores.
package braze
