//! `elicit`: fills in, declines or cancels a prompt.

use serde_json::{Map, Value};
use skald_payloads::ElicitationAction;
use zeroize::Zeroizing;

use super::{answer, deadline};
use crate::cli;
use crate::draft::Draft;
use crate::failure::{Failure, Outcome};
use crate::form::Form;
use crate::out;
use crate::secret;
use crate::session::Session;
use crate::snapshot::{Item, Kind};
use crate::text::one_line;

pub async fn run(session: &Session, json: bool, args: cli::Elicit) -> Outcome<()> {
    let wait = args.wait.wait;
    let item = answer::find(session, &args.id, Kind::Elicitation, deadline(wait), wait).await?;
    let (action, content) = if args.decline {
        (ElicitationAction::Decline, None)
    } else if args.cancel {
        (ElicitationAction::Cancel, None)
    } else {
        let form = Form::of(&item);
        // Asking takes as long as a person takes: it must not hold up the connection.
        let content = if let Some(text) = args.value {
            warn_if_visible(&form);
            form.content(&Zeroizing::new(text))?
        } else {
            let stdin = args.value_from_stdin;
            let for_asking = item.clone();
            let asked = tokio::task::spawn_blocking(move || ask(&for_asking, &form, stdin)).await;
            asked.map_err(|_| Failure::refused("The value could not be read; nothing was sent."))??
        };
        (ElicitationAction::Accept, content)
    };
    let draft = Draft::Elicitation { action, content };
    answer::deliver(session, json, &item, draft, deadline(wait), wait).await
}

/// What stands in a command line is seen by everybody on this computer, and kept in the shell's history.
fn warn_if_visible(form: &Form) {
    let secret = match form {
        Form::One(field) => field.secret,
        Form::Several(fields) => fields.iter().any(|f| f.secret),
        Form::Confirmation | Form::Url(_) => false,
    };
    if secret {
        out::aside(
            "Others on this computer can see a value on the command line; --value-from-stdin hides it.",
        );
    }
}

fn ask(item: &Item, form: &Form, stdin: bool) -> Outcome<Option<Map<String, Value>>> {
    if stdin {
        let hidden = !matches!(form, Form::Confirmation | Form::Url(_));
        return form.content(&secret::from_stdin("Value", hidden)?);
    }
    if !secret::can_ask() {
        return Err(Failure::usage(
            "Give --value, --value-from-stdin, --decline or --cancel; nothing was sent.",
        ));
    }
    out::aside(&one_line(item.text("message").unwrap_or_default()));
    match form {
        Form::Confirmation | Form::Url(_) => {
            if let Form::Url(url) = form {
                out::aside(&one_line(url));
            }
            form.content(&secret::from_terminal("Type yes to agree", false)?)
        }
        Form::One(field) => form.content(&secret::from_terminal(&one_line(&field.describe()), field.secret)?),
        Form::Several(fields) => {
            let mut content = Map::new();
            for field in fields {
                let text = secret::from_terminal(&one_line(&field.describe()), field.secret)?;
                if text.is_empty() && !field.required {
                    continue;
                }
                let one = Form::One(field.clone()).content(&text)?;
                content.extend(one.unwrap_or_default());
            }
            Ok(Some(content))
        }
    }
}
