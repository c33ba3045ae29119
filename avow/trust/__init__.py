"""How far an answer can be trusted: probabilities, promises, verdicts, and their study."""
