package apitest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const document = `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{
	"/a/{id}":{"get":{"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}}],"responses":{
		"200":{"description":"d","headers":{"X-Id":{"$ref":"#/components/headers/Id"},"X-Left":{"schema":{"type":"integer","minimum":0}}},
			"content":{"application/json":{"schema":{"$ref":"#/components/schemas/A"}},"text/html":{"schema":{"type":"string"}}}},
		"4XX":{"$ref":"#/components/responses/Refused"}}}},
	"/a/b":{"post":{"responses":{"204":{"description":"d"}}}}},
	"components":{"headers":{"Id":{"required":true,"schema":{"type":"string","minLength":2}}},
		"responses":{"Refused":{"description":"d","content":{"application/json":{"schema":{"$ref":"#/components/schemas/Error"}}}}},
		"schemas":{
			"A":{"type":"object","additionalProperties":false,"required":["n"],"properties":{"n":{"type":"integer","maximum":9},"at":{"type":"string","format":"date-time"},"more":{"$ref":"#/components/schemas/A"}}},
			"Error":{"type":"object","required":["error"],"properties":{"error":{"type":"string"}}}}}}`

// An answer that the document does not promise is found, whatever of it is wrong.
func TestCheck(t *testing.T) {
	c, err := New([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	const json, refused = "application/json", `{"error":"no"}`
	for _, tt := range []struct {
		request string
		status  int
		header  string // X-Id, X-Left, Content-Type, Allow
		body    string
		wrong   string // empty: nothing is
	}{
		{"GET /a/1", 200, "id,1," + json, `{"n":1,"at":"2026-01-31T10:00:00.5Z","more":{"n":9}}`, ""},
		{"GET /a/1", 200, "id,," + json, `{"n":1}`, ""},
		{"GET /a/1", 200, "id,,text/html; charset=utf-8", `<p>`, ""},
		{"HEAD /a/1", 200, "id,," + json, ``, ""},
		{"GET /a/1", 404, ",," + json, refused, ""},
		{"GET /a/1", 304, "", "", ""},
		{"POST /a/b", 204, "", "", ""},
		{"GET /a/b", 405, ",," + json + ",POST", refused, ""},
		{"GET /b", 404, ",," + json, refused, ""},
		{"GET /a/1", 421, ",," + json, refused, ""},

		{"GET /a/1", 200, "id,," + json, `{"n":10}`, "/n"},
		{"GET /a/1", 200, "id,," + json, `{"n":"1"}`, "/n"},
		{"GET /a/1", 200, "id,," + json, `{"n":1,"more":{"n":10}}`, "/more/n"},
		{"GET /a/1", 200, "id,," + json, `{"n":1,"at":"yesterday"}`, "/at"},
		{"GET /a/1", 200, "id,," + json, `{"n":1,"z":1}`, "z"},
		{"GET /a/1", 200, "id,," + json, `{}`, "n"},
		{"GET /a/1", 200, "id,," + json, `{"n":1`, "JSON"},
		{"GET /a/1", 200, "id,,text/plain", `{"n":1}`, "text/plain"},
		{"GET /a/1", 200, ",," + json, `{"n":1}`, "X-Id"},
		{"GET /a/1", 200, "x,," + json, `{"n":1}`, "X-Id"},
		{"HEAD /a/1", 200, "x,," + json, ``, "X-Id"},
		{"GET /a/1", 200, "id,-1," + json, `{"n":1}`, "X-Left"},
		{"GET /a/1", 200, "id,many," + json, `{"n":1}`, "X-Left"},
		{"GET /a/1", 500, "id,," + json, refused, "status"},
		{"GET /a/1", 404, ",," + json, `{}`, "error"},
		{"POST /a/b", 200, "", "", "status"},
		{"GET /a/b", 404, ",," + json, refused, "405"},
		{"GET /a/b", 405, ",," + json, refused, "Allow"},
		{"GET /b", 404, ",," + json, `{"error":1}`, "/error"},
		{"GET /b", 404, ",,text/plain", refused, "Content-Type"},
	} {
		method, path, _ := strings.Cut(tt.request, " ")
		header := http.Header{}
		for i, value := range strings.Split(tt.header, ",") {
			if value != "" {
				header.Set([]string{"X-Id", "X-Left", "Content-Type", "Allow"}[i], value)
			}
		}
		err := c.Check(httptest.NewRequest(method, path, nil), tt.status, header, []byte(tt.body))
		if (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%s: %d %s %s: %v, want %q", tt.request, tt.status, tt.header, tt.body, err, tt.wrong)
		}
	}
}
