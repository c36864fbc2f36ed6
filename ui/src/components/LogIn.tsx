import { type FormEvent, useEffect, useState } from "react";
import { loadProvider, logIn } from "../state/access.ts";
import { Button, controls } from "./controls.tsx";
import styles from "./LogIn.module.css";

/** Asks for a token, in place of the views, or leads to the identity provider. */
export function LogIn() {
  const [token, setToken] = useState("");
  const [failure, setFailure] = useState("");
  const [waiting, setWaiting] = useState(false);
  const [provider, setProvider] = useState<string>();
  useEffect(() => {
    void loadProvider().then(setProvider);
  }, []);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (waiting || token.trim() === "") return;
    setWaiting(true);
    const problem = await logIn(token.trim());
    // All views begin anew, at the address that was opened.
    if (problem === undefined) location.reload();
    else {
      setFailure(problem);
      setWaiting(false);
    }
  };
  return (
    <main className={styles.page}>
      <form className={styles.form} onSubmit={submit} aria-labelledby="login-title">
        <h2 id="login-title">Log in</h2>
        {provider !== undefined && (
          <p>
            <a href="/auth/login">Log in at {new URL(provider).host}</a>, or with a token:
          </p>
        )}
        <label htmlFor="token">Token</label>
        {/* A password manager keeps it as a password of this site. */}
        <input
          id="token"
          className={controls.field}
          type="password"
          autoComplete="current-password"
          spellCheck={false}
          // biome-ignore lint/a11y/noAutofocus: it is the only field of the page
          autoFocus
          value={token}
          aria-invalid={failure !== ""}
          aria-describedby={failure === "" ? "token-help" : "token-problem"}
          onChange={(event) => {
            setToken(event.target.value);
            setFailure("");
          }}
        />
        {failure === "" ? (
          <p id="token-help" className={styles.help}>
            This node needs a token with the scope read. Its operator makes one with <code>bucksaw token add</code>.
          </p>
        ) : (
          <p id="token-problem" role="alert" className={styles.problem}>
            {failure.charAt(0).toUpperCase() + failure.slice(1)}.
          </p>
        )}
        <Button type="submit" look="primary" disabled={waiting}>
          {waiting ? "Checking…" : "Log in"}
        </Button>
      </form>
    </main>
  );
}
