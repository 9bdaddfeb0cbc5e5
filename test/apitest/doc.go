// Package apitest checks answers of the HTTP API against its OpenAPI document.
// It knows the document only as text, so that the tests of package api can use
// it as well as those of the whole program.
package apitest
