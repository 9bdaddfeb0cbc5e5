// Package rewrite puts links that are counted into mails: HTML gets a pixel, and
// its links lead by way of this deployment. All else stays as it was, byte for
// byte, but for data-sluice-track, which is cut out, and quotes that an href lacks. What a mail comes to is found once for all who get it.
package rewrite
