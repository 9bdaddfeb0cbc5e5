package mime

import (
	"mime"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of attachments. What all of them have together is bounded by the
// message (sluice.MaxMessageBytes).
const (
	MaxAttachments       = 100
	MaxFileNameBytes     = 255
	MaxContentTypeBytes  = 255
	MaxContentIDBytes    = 128
	parameterSectionSize = 60 // of a name in several pieces (RFC 2231, 3)
)

// Attachment is a file that goes with a mail.
type Attachment struct {
	Name string // of the file
	Type string // image/png; empty: by the name's ending

	// ContentID, without brackets, is what the HTML calls it (src="cid:logo"): it
	// is shown there and not listed as a file. Empty: it is a file.
	ContentID string

	Data []byte
}

// typesByEnding are the types that people send. The machine's own table is not
// asked: a mail is the same wherever it is built.
var typesByEnding = map[string]string{
	".pdf": "application/pdf", ".zip": "application/zip", ".gz": "application/gzip", ".json": "application/json", ".xml": "application/xml",
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".svg": "image/svg+xml",
	".txt": "text/plain", ".csv": "text/csv", ".html": "text/html", ".htm": "text/html", ".ics": "text/calendar", ".md": "text/markdown",
	".doc": "application/msword", ".xls": "application/vnd.ms-excel", ".ppt": "application/vnd.ms-powerpoint", ".rtf": "application/rtf",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".mp3":  "audio/mpeg", ".mp4": "video/mp4", ".eml": "application/octet-stream",
}

// contentType returns the type to be written, checked.
func (a *Attachment) contentType() (kind string, parameters map[string]string, err error) {
	if a.Type == "" {
		kind = typesByEnding[strings.ToLower(path.Ext(a.Name))]
		if kind == "" {
			kind = "application/octet-stream"
		}
		return kind, nil, nil
	}
	kind, parameters, err = mime.ParseMediaType(a.Type)
	switch {
	case err != nil || len(a.Type) > MaxContentTypeBytes || !IsASCII(a.Type) || !strings.Contains(kind, "/") || checkText(a.Type) != nil:
		return "", nil, wrong("type", "%q is not a media type, want one like image/png", clip(a.Type))
	case strings.HasPrefix(kind, "multipart/"), strings.HasPrefix(kind, "message/"):
		// RFC 2045, 6.4 and RFC 2046, 5.2.1: these must not be base64.
		return "", nil, wrong("type", "a file cannot be %s; send it as application/octet-stream", kind)
	}
	delete(parameters, "name")
	return kind, parameters, nil
}

// appendPart appends an attachment as a part: its headers and its content.
func (a *Attachment) appendPart(b []byte) ([]byte, error) {
	if len(a.Name) > MaxFileNameBytes {
		return b, wrong("name", "has %d octets, at most %d are possible", len(a.Name), MaxFileNameBytes)
	}
	if err := checkText(a.Name); err != nil {
		return b, wrong("name", "%s", err)
	}
	if err := checkContentID(a.ContentID); err != nil {
		return b, err
	}
	kind, parameters, err := a.contentType()
	if err != nil {
		return b, err
	}
	l := newLine(b, "Content-Type")
	// FormatMediaType sorts the parameters and quotes them; it returns nothing
	// for what it cannot write.
	text := mime.FormatMediaType(kind, parameters)
	if text == "" {
		return b, wrong("type", "%q is not a media type, want one like image/png", clip(a.Type))
	}
	for i, piece := range strings.Split(text, "; ") {
		if i > 0 {
			l.b = append(l.b, ';')
		}
		l.token(piece)
	}
	// Readers that know no RFC 2231 look here, and decode RFC 2047.
	if a.Name != "" {
		l.b = append(l.b, ';')
		l.oldName(a.Name)
	}
	b = append(l.end(), "Content-Transfer-Encoding: base64\r\n"...)
	disposition := "attachment"
	if a.ContentID != "" {
		disposition = "inline"
		b = append(append(append(b, "Content-ID: <"...), a.ContentID...), ">\r\n"...)
	}
	l = newLine(b, "Content-Disposition")
	l.token(disposition)
	if a.Name != "" {
		l.fileName(a.Name)
	}
	return appendBase64(append(l.end(), crlf...), a.Data), nil
}

// oldName writes the parameter name, in encoded words where it is not ASCII.
func (l *line) oldName(name string) {
	if isPlain(name) && len(name) <= parameterSectionSize {
		l.token("name=" + string(appendQuoted(nil, name)))
		return
	}
	l.fold()
	l.b = append(l.b, ` name="`...)
	l.words(name, "")
	l.b = append(l.b, '"')
}

// fileName writes the parameter filename: as it is if that is possible, else by
// RFC 2231, in sections where it is long.
func (l *line) fileName(name string) {
	if isPlain(name) && len(name) <= parameterSectionSize {
		l.b = append(l.b, ';')
		l.token("filename=" + string(appendQuoted(nil, name)))
		return
	}
	var sections []string
	section := []byte("utf-8''")
	for _, r := range name {
		var room [3 * utf8.UTFMax]byte
		one := appendPercent(room[:0], r)
		if len(section)+len(one) > parameterSectionSize {
			sections = append(sections, string(section))
			section = section[:0]
		}
		section = append(section, one...)
	}
	sections = append(sections, string(section))
	for i, s := range sections {
		l.b = append(l.b, ';')
		if len(sections) == 1 {
			l.token("filename*=" + s)
		} else {
			l.token("filename*" + strconv.Itoa(i) + "*=" + s)
		}
	}
}

// appendPercent appends a character as an extended value has it (RFC 2231, 7).
func appendPercent(b []byte, r rune) []byte {
	var room [utf8.UTFMax]byte
	for _, c := range utf8.AppendRune(room[:0], r) {
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_' {
			b = append(b, c)
		} else {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return b
}

// checkContentID takes what can stand in a header and in a cid URL (RFC 2392)
// without being encoded.
func checkContentID(s string) error {
	for i := range len(s) {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("@._+-", rune(c)) {
			return wrong("content_id", "%q is not a content id: want letters, digits and @ . _ + -", clip(s))
		}
	}
	if len(s) > MaxContentIDBytes {
		return wrong("content_id", "has %d octets, at most %d are possible", len(s), MaxContentIDBytes)
	}
	return nil
}
